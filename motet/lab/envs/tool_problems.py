"""Problems with two tools: the policy may call Calculator and must call FinalAnswer.

The reward is 1 only for a FinalAnswer that carries the right number, written as a number. How it was found
does not count: a FinalAnswer without any Calculator call is paid if it is right and only then, and what is
not plain arithmetic gives the Calculator's error, never a reward.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from motet.lab.envs.calculator import BadExpression, evaluate, read_number, show_number
from motet.lab.envs.formats.base import Call, Format
from motet.lab.envs.problems import Problem, Problems, Split
from motet.lab.envs.protocol import Cue, End, Written


@dataclass(frozen=True)
class Limits:
    """How much an episode may take: turns, and tokens written in each."""

    turns: int
    turn_tokens: int


class ToolProblem:
    """One episode over one problem. Single use."""

    def __init__(
        self, problem: Problem, examples: Sequence[Problem], form: Format, limits: Limits, hints: bool = False
    ) -> None:
        self._problem = problem
        self._examples = examples
        self._format = form
        self._limits = limits
        self._hints = hints
        self._turns = 0

    async def start(self) -> Cue:
        prompt = self._cue(self._format.prompt(self._problem.question, self._examples))
        if not (self._hints and self._problem.steps):
            return prompt
        solved = self._format.prompt(self._problem.question, [*self._examples, self._problem])
        return replace(prompt, hint=solved)

    async def step(self, written: Written) -> Cue | End:
        self._turns += 1
        if not written.stopped:
            return End(0.0, "truncated")
        call = self._format.read_call(written.text)
        if call is None:
            return End(0.0, "no call")
        if call.tool == "FinalAnswer":
            right = read_number(call.argument) == self._problem.answer
            return End(1.0, "right") if right else End(0.0, "wrong")
        if self._turns == self._limits.turns:
            return End(0.0, "out of turns")
        return self._cue(self._format.result(written.text, _use(call)))

    def _cue(self, tokens: list[int]) -> Cue:
        return Cue(tokens, self._limits.turn_tokens, self._format.stop)


def _use(call: Call) -> str:
    """What the policy reads back from a tool that is not FinalAnswer."""
    if call.tool != "Calculator":
        return f"error: no tool {call.tool[:40]}; there are Calculator and FinalAnswer"
    try:
        return show_number(evaluate(call.argument))
    except BadExpression as error:
        return f"error: {error}"


@dataclass(frozen=True)
class ToolProblems:
    """Episodes over any source of problems, all after the same worked examples."""

    problems: Problems
    form: Format
    limits: Limits
    examples: int
    hints: bool = False  # a teacher may read the solution

    def train(self, index: int) -> ToolProblem:
        return self._episode("train", index)

    def held_out(self, index: int) -> ToolProblem:
        return self._episode("held_out", index)

    def _episode(self, split: Split, index: int) -> ToolProblem:
        worked = [self.problems.problem("example", i) for i in range(self.examples)]
        return ToolProblem(self.problems.problem(split, index), worked, self.form, self.limits, self.hints)
