"""Episodes under a scripted policy: rewards, the mask token by token, gaming, and environments that raise."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction

import pytest
from transformers import PreTrainedTokenizerFast

from motet.lab.envs.formats.plain import PlainFormat
from motet.lab.envs.problems import Problem
from motet.lab.envs.protocol import Cue, End, Environment, Group, Trajectory, Written
from motet.lab.envs.rollout import EnvironmentFailed, mix, play_group, play_groups
from motet.lab.envs.tool_problems import Limits, ToolProblem

PROBLEM = Problem("Ann has 23 apples. Ann buys 18 more. How many now?", Fraction(41), ("23+18",))


@dataclass
class Script:
    """A policy that says its lines: one list of lines for each member of the group."""

    tokenizer: PreTrainedTokenizerFast
    lines: list[list[str]]
    seen: list[list[int]] = field(default_factory=list)
    version: int = 0

    async def write(self, tokens: Sequence[int], cue: Cue, count: int, seed: int) -> list[Written]:
        self.seen.append(list(tokens))
        if count > 1 or len(self.lines) == 1:
            return [self._say(lines.pop(0)) for lines in self.lines]
        return [self._say(next(lines for lines in self.lines if lines).pop(0))]

    def _say(self, line: str) -> Written:
        stopped = not line.endswith("...")
        tokens = [int(t) for t in self.tokenizer.encode(line)]
        return Written(tokens, [-0.5 - 0.1 * i for i in range(len(tokens))], line, stopped)


def play(tokenizer: PreTrainedTokenizerFast, *lines: str, turns: int = 4) -> Trajectory:
    env = ToolProblem(PROBLEM, [], PlainFormat(tokenizer), Limits(turns, 24))
    group = asyncio.run(play_group(0, [env], Script(tokenizer, [list(lines)]), 0))
    return group.trajectories[0]


def test_mask_and_logprobs_token_by_token(bare: PreTrainedTokenizerFast) -> None:
    one = play(bare, "Calculator[23+18]\n", "FinalAnswer[41]")
    pieces = [
        (f"{PROBLEM.question}\n", False),
        ("Calculator[23+18]\n", True),
        ("Result: 41\n", False),
        ("FinalAnswer[41]", True),
    ]
    tokens = [bare.encode(text) for text, _ in pieces]
    assert one.tokens == [t for piece in tokens for t in piece]
    assert one.mask == [written for piece, (_, written) in zip(tokens, pieces, strict=True) for _ in piece]
    assert one.logprobs == [
        -0.5 - 0.1 * i if written else 0.0
        for piece, (_, written) in zip(tokens, pieces, strict=True)
        for i in range(len(piece))
    ]
    assert one.written_count == len(tokens[1]) + len(tokens[3])
    assert one.end == End(1.0, "right")


@pytest.mark.parametrize(
    ("lines", "reward", "outcome"),
    [
        (["Calculator[23+18]", "FinalAnswer[41]"], 1.0, "right"),
        (["FinalAnswer[41]"], 1.0, "right"),  # paid if right, with or without the Calculator
        (["FinalAnswer[41.0]"], 1.0, "right"),
        (["FinalAnswer[40]"], 0.0, "wrong"),
        (["FinalAnswer[23+18]"], 0.0, "wrong"),  # a number, not its expression
        (["FinalAnswer[40 or 41]"], 0.0, "wrong"),
        (["FinalAnswer[]"], 0.0, "wrong"),
        (["Result: 41\n"], 0.0, "no call"),  # a result that it wrote itself is no answer
        (["41\n"], 0.0, "no call"),
        (["FinalAnswer[41 and so on..."], 0.0, "truncated"),
        (["FinalAnswer[41]..."], 0.0, "truncated"),
        (["Calculator[reward = 1]", "FinalAnswer[0]"], 0.0, "wrong"),
        (["Calculator[1]"] * 4, 0.0, "out of turns"),
    ],
)
def test_what_is_paid(bare: PreTrainedTokenizerFast, lines: list[str], reward: float, outcome: str) -> None:
    assert play(bare, *lines).end == End(reward, outcome)


def test_code_in_the_calculator_gives_an_error_and_nothing_else(bare: PreTrainedTokenizerFast) -> None:
    one = play(bare, "Calculator[__import__('os').getcwd()]", "FinalAnswer[41]")
    assert bare.decode(one.turns[1].read).startswith("\nResult: error: only numbers")


def test_the_policy_reads_everything_before_its_turn(bare: PreTrainedTokenizerFast) -> None:
    script = Script(bare, [["Calculator[23+18]", "Calculator[41]", "FinalAnswer[41]"]])
    env = ToolProblem(PROBLEM, [], PlainFormat(bare), Limits(4, 24))
    one = asyncio.run(play_group(0, [env], script, 0)).trajectories[0]
    ends = [len(seen) for seen in script.seen]
    assert script.seen == [one.tokens[:end] for end in ends]
    assert ends[2] == len(one.tokens) - len(one.turns[2].written.tokens)


class Broken:
    """An environment that raises, at its start or at its first step."""

    def __init__(self, at_start: bool) -> None:
        self._at_start = at_start

    async def start(self) -> Cue:
        if self._at_start:
            raise KeyError("no such order")
        return Cue([1, 2], 4)

    async def step(self, written: Written) -> Cue | End:
        raise ZeroDivisionError("lost")


class Fine(Broken):
    async def step(self, written: Written) -> Cue | End:
        return End(1.0, "right")


def test_an_environment_that_raises_fails_its_own_episode(bare: PreTrainedTokenizerFast) -> None:
    envs: list[Environment] = [Fine(False), Broken(False)]
    group = asyncio.run(play_group(3, envs, Script(bare, [["a"], ["b"]]), 0))
    assert group.rewards == [1.0]
    assert group.failures == ["the environment raised ZeroDivisionError: lost"]


def test_a_group_that_fails_leaves_the_others(bare: PreTrainedTokenizerFast) -> None:
    def group(env: Environment) -> object:
        return play_group(0, [env], Script(bare, [["a"]]), 0)

    played = asyncio.run(play_groups([group(Fine(False)), group(Broken(True)), group(Broken(False))]))  # type: ignore[list-item]
    assert [type(one) for one in played.groups] == [Group]
    assert played.failures == [
        "the environment raised KeyError: 'no such order'",
        "the environment raised ZeroDivisionError: lost",
    ]
    with pytest.raises(EnvironmentFailed, match="no such order"):
        asyncio.run(play_groups([group(Broken(True))]))  # type: ignore[list-item]


def test_errors_of_the_policy_are_not_the_environments(bare: PreTrainedTokenizerFast) -> None:
    with pytest.raises(IndexError):
        asyncio.run(play_groups([play_group(0, [Fine(False)], Script(bare, [[]]), 0)]))


def test_seeds_differ_and_are_stable() -> None:
    assert mix(0, 1) == 760895430
    assert len({mix(a, b) for a in range(30) for b in range(30)}) == 900
    assert all(0 <= mix(a) < 2**31 for a in range(100))
