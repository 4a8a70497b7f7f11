"""Self-distillation from a demonstration: the teacher is the student itself, shown how it is done.

    A_it = weight (log p(o_it | hint, o_i<t) - log p_now(o_it | o_i<t)) - mean,     f = rho A

The student answers from the prompt alone; the same weights, or the base model's, with the demonstration in their
context judge every token. What is learned is the difference that the demonstration makes, on the student's own words,
so that less is forgotten than by imitation: Shenfeld et al. 2026, "Self-Distillation Enables Continual Learning",
arXiv:2601.19897. Episodes without a hint teach nothing.

`demonstrated` and `taught` do the same for answers that were not written in an environment, such as those that
somebody has corrected.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from motet.chat.template import Chat, Message
from motet.lab.algorithms.base import Lesson, Scorer, Scorers
from motet.lab.algorithms.datums import policy_datum
from motet.lab.algorithms.judging import Judge, as_it_was, scored
from motet.lab.algorithms.policy import PolicyGradient
from motet.lab.envs.protocol import Group


class SelfDistillation(PolicyGradient):
    """Settings of self-distillation and the algorithm itself."""

    wants_hints: ClassVar[bool] = True
    name: Literal["self_distillation"]
    judge: Literal["current", "base"] = "current"
    weight: float = Field(default=1.0, gt=0)

    @property
    def by_group(self) -> bool:
        return False

    def teaches(self, group: Group) -> bool:
        """Is there something to be shown? The episodes of a group begin alike, with the same hint."""
        return self.kl > 0 or any(one.hint for one in group.trajectories)

    def advantages(self, groups: Sequence[Sequence[float]]) -> list[list[float]]:
        return [[0.0] * len(rewards) for rewards in groups]

    def judges(self, scorers: Scorers) -> list[Judge]:
        judge = scorers.current if self.judge == "current" else scorers.base
        shown = Judge("reverse_kl", self.weight, judge, lambda one: one.hint or as_it_was(one))
        return [*super().judges(scorers), shown]


@dataclass(frozen=True)
class Answer:
    """What a policy wrote after a prompt, and the tokens that a judge reads in the prompt's place."""

    prompt: Sequence[int]
    written: Sequence[int]
    logprobs: Sequence[float]  # of the policy, one a token written
    hint: Sequence[int]


def demonstrated(chat: Chat, messages: Sequence[Message], demonstration: str) -> list[int]:
    """The prompt as a judge reads it: the last message, a user's, followed by how an answer may look. (The wording is
    that of Shenfeld et al. 2026, section 3.)"""
    *before, last = messages
    shown = (
        f"{last['content']}\n\nThis is an example for a response to the question:\n{demonstration}\n\n"
        "Now answer with a response of your own, including the thinking process."
    )
    return chat.prompt([*before, {**last, "content": shown}])


async def taught(answers: Sequence[Answer], judge: Scorer, weight: float = 1.0) -> list[Lesson]:
    """A lesson of each answer, for the loss `importance_sampling`; means are over all tokens that were written."""
    tokens = [[*one.prompt, *one.written] for one in answers]
    given = await asyncio.gather(
        *(scored(judge, own, len(one.prompt), one.hint) for one, own in zip(answers, tokens, strict=True))
    )
    gains = [own[len(one.prompt) :] - np.asarray(one.logprobs) for one, own in zip(answers, given, strict=True)]
    total = max(sum(len(one.written) for one in answers), 1)
    mean = sum(float(gain.sum()) for gain in gains) / total
    lessons = []
    for one, own, gain in zip(answers, tokens, gains, strict=True):
        read = np.zeros(len(one.prompt))
        logprobs, advantages = np.concatenate([read, one.logprobs]), np.concatenate([read, weight * (gain - mean)])
        lessons.append(Lesson(policy_datum(own, logprobs, advantages / total)))
    return lessons
