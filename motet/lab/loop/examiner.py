"""The judges of a loop: the gate's exam, the watch over a canary, the look at feedback itself."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from motet.lab.algorithms.examples import Completion
from motet.lab.experiments.door import Door
from motet.lab.loop.gate.decision import SetResult, judge
from motet.lab.loop.gate.exam import Room, Sat, exam_room
from motet.lab.loop.gate.sets import SAFETY, Question, held_out, read_set
from motet.lab.loop.items import Item
from motet.lab.loop.judges import Doubt, Sides, Verdict
from motet.lab.loop.settings import Policy
from motet.lab.loop.watch.canary import watched
from motet.lab.loop.watch.drift import alarms, course_of
from motet.lab.loop.watch.quarantine import doubts


class Examiner:
    """`Judges` by a policy's own settings."""

    def __init__(self, policy: Policy, door: Door) -> None:
        self._policy = policy
        self._door = door
        self._guards: dict[str, list[Question]] = {}
        if policy.gate.regression is not None:
            self._guards["the regression set"] = read_set(policy.gate.regression)
        if policy.gate.safety:
            self._guards["the safety set"] = read_set(SAFETY)

    async def gate(self, sides: Sides, items: Sequence[Item]) -> Verdict:
        """Both versions sit all sets; then the figures decide."""
        newest = sorted(items, key=lambda one: one.number)[-self._policy.gate.questions :]
        sets = {"held-out feedback": held_out(newest), **self._guards}
        results, answered = list[SetResult](), (list[Sat](), list[Sat]())
        async with exam_room(self._door, sides.before, sides.after, self._policy.gate.temperature) as room:
            for name, questions in sets.items():
                both = await self._sit(room, questions)
                scores = [[one.score(sat.text) for one, sat in zip(questions, own, strict=True)] for own in both]
                results.append(self._result(name, scores))
                if name in self._guards or not self._guards:  # drift is looked for where nothing should change
                    for kept, own in zip(answered, both, strict=True):
                        kept.extend(own)
            results.append(await self._verdicts(room, [one for one in newest if one.better is None]))
        verdict = judge(results, self._policy.gate.level, self._policy.seed)
        return self._alarmed(verdict, *answered)

    def canary(self, before: Sequence[Item], after: Sequence[Item], minutes: float) -> Verdict | None:
        return watched(before, after, minutes, self._policy.canary, self._policy.learn.good)

    def doubts(self, items: Sequence[Item]) -> list[Doubt]:
        return doubts(items, self._policy.quarantine, self._policy.learn.good)

    async def _sit(self, room: Room, questions: Sequence[Question]) -> tuple[list[Sat], list[Sat]]:
        longest, seed = self._policy.gate.max_tokens, self._policy.seed
        sides = (room.before, room.after)
        before, after = await asyncio.gather(*(side.answers(questions, longest, seed) for side in sides))
        return before, after

    async def _verdicts(self, room: Room, items: Sequence[Item]) -> SetResult:
        """Answers that people judged: good ones should be likelier than before, bad ones less. Nats a token."""
        answers = [
            Completion.of(
                one.read or room.chat.prompt(one.messages, one.tools), one.written or room.chat.answer(one.text)
            )
            for one in items
        ]
        signs = [1.0 if one.is_good(self._policy.learn.good) else -1.0 for one in items]
        liked = [await side.likes(answers) for side in (room.before, room.after)]
        scores = [[sign * like for sign, like in zip(signs, own, strict=True)] for own in liked]
        return self._result("held-out verdicts", scores)

    def _result(self, name: str, scores: Sequence[Sequence[float]]) -> SetResult:
        (before, after), gate = scores, self._policy.gate
        if name in self._guards:
            return SetResult(name, "guard", before, after, gate.margin, gate.sure)
        return SetResult(name, "target", before, after, gate.margin)

    def _alarmed(self, verdict: Verdict, before: Sequence[Sat], after: Sequence[Sat]) -> Verdict:
        """What has gone too far is told with the verdict, or decides it."""
        if not after:
            return verdict
        then, now = course_of(before), course_of(after)
        found = alarms(then, now, self._policy.drift)
        reason = "; ".join([verdict.reason, *(f"drift: {one}" for one in found)])
        promote = verdict.promote and not (found and self._policy.drift.refuse)
        return Verdict(promote, reason, verdict.figures | vars(now))
