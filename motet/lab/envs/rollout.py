"""Playing episodes: environments on one side, a policy that writes tokens on the other."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Awaitable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, TypeVar

import tinker
from transformers import PreTrainedTokenizerBase

from motet.errors import MotetError
from motet.lab.envs.protocol import Cue, Environment, Group, Trajectory, Turn, Written

Answer = TypeVar("Answer")


class EnvironmentFailed(MotetError):
    """An environment raised; its own exception is the cause."""


class Policy(Protocol):
    """Writes `count` continuations of `tokens` within the bounds of `cue`; the same seed gives the same."""

    @property
    def version(self) -> int:
        """The number of the version that writes; 0 where it has none."""
        ...

    async def write(self, tokens: Sequence[int], cue: Cue, count: int, seed: int) -> list[Written]: ...


class TinkerPolicy:
    """A policy behind the Tinker API: one published version of an adapter, or the base model."""

    def __init__(
        self, client: tinker.SamplingClient, tokenizer: PreTrainedTokenizerBase, temperature: float, version: int = 0
    ) -> None:
        self.version = version
        self._client = client
        self._tokenizer = tokenizer
        self._temperature = temperature

    async def write(self, tokens: Sequence[int], cue: Cue, count: int, seed: int) -> list[Written]:
        params = tinker.SamplingParams(
            max_tokens=cue.max_tokens,
            temperature=self._temperature,
            seed=seed,
            stop=list(cue.stop) or None,
        )
        answer = await self._client.sample(tinker.ModelInput.from_ints(list(tokens)), count, params)
        return [
            Written(one.tokens, one.logprobs or [], self._decode(one.tokens), one.stop_reason == "stop")
            for one in answer.sequences
        ]

    def _decode(self, tokens: list[int]) -> str:
        return str(self._tokenizer.decode(tokens, skip_special_tokens=False))


@dataclass(frozen=True)
class Played:
    """Groups that were played, and what the environments of the others raised."""

    groups: list[Group]
    failures: list[str]


async def play_groups(groups: Iterable[Awaitable[Group]]) -> Played:
    """Many groups at once. One whose environment raised is left out and told; raises when all did."""
    results = await asyncio.gather(*groups, return_exceptions=True)
    failed = [one for one in results if isinstance(one, EnvironmentFailed)]
    for one in results:
        if isinstance(one, BaseException) and not isinstance(one, EnvironmentFailed):
            raise one
    played = [one for one in results if isinstance(one, Group)]
    if not played and failed:
        raise failed[0]
    return Played(played, [str(one) for one in failed] + [text for one in played for text in one.failures])


async def play_group(problem: int, envs: Sequence[Environment], policy: Policy, seed: int) -> Group:
    """G episodes of one problem. Their first turns are one request, so that the prompt is prefilled once.

    An episode whose environment raises fails alone and is told in the group's failures. Raises
    EnvironmentFailed when none was left, or when one did not start; errors of the policy pass through.
    """
    cues = [await _ask(env.start()) for env in envs]
    prompt = cues[0]
    if any(cue != prompt for cue in cues):
        raise EnvironmentFailed("the episodes of one group must start with the same prompt")
    firsts = await policy.write(prompt.tokens, prompt, len(envs), seed)
    played = await asyncio.gather(
        *(
            _play(env, prompt, first, policy, mix(seed, member))
            for member, (env, first) in enumerate(zip(envs, firsts, strict=True))
        )
    )
    failures = [one for one in played if isinstance(one, EnvironmentFailed)]
    if len(failures) == len(played):
        raise failures[0]
    return Group(problem, [one for one in played if isinstance(one, Trajectory)], [str(f) for f in failures])


async def _play(
    env: Environment, prompt: Cue, first: Written, policy: Policy, seed: int
) -> Trajectory | EnvironmentFailed:
    """One episode from its first turn on; a failure of the environment is returned, not raised."""
    turns = [Turn(prompt.tokens, first)]
    context = prompt.tokens + first.tokens
    try:
        while isinstance(cue := await _ask(env.step(turns[-1].written)), Cue):
            turns[-1] = replace(turns[-1], reward=cue.reward)
            context = context + cue.tokens
            written = (await policy.write(context, cue, 1, mix(seed, len(turns))))[0]
            turns.append(Turn(cue.tokens, written))
            context = context + written.tokens
    except EnvironmentFailed as failure:
        return failure
    return Trajectory(turns, cue, policy.version, prompt.hint)


async def _ask(answer: Awaitable[Answer]) -> Answer:
    """Await an environment; whatever it raises becomes EnvironmentFailed."""
    (result,) = await asyncio.gather(answer, return_exceptions=True)
    if isinstance(result, BaseException):
        told = f"{type(result).__name__}: {result}"
        raise EnvironmentFailed(f"the environment raised {told}") from result
    return result


def mix(*numbers: int) -> int:
    """One seed of 31 bits out of several numbers; the same on every machine."""
    return zlib.crc32(repr(numbers).encode()) & 0x7FFFFFFF
