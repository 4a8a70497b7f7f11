"""One round, stage by stage. Each stage may be begun again after whatever end: the server's records say what is done.

open    the name is new: a version that has learned nothing yet serves, so that there is something to be better than
gather  feedback is there and it is time: a training claims its items, some are held out, older ones replayed
learn   a run learns them and is saved
bring   its checkpoint becomes the name's candidate, which closes the training
gate    the candidate against what serves: refused, or let out to a part of the traffic
canary  live feedback to both: promoted, or taken back
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import tinker

from motet.client.connection import Connection
from motet.client.names import Names
from motet.client.records import Records
from motet.lab.envs.rollout import mix
from motet.lab.experiments.door import Door
from motet.lab.loop.gather import Claim, Desk, claim_of, is_due
from motet.lab.loop.items import Item
from motet.lab.loop.judges import Judges, Sides, Verdict
from motet.lab.loop.learn import learn
from motet.lab.loop.lineage import Training, held_out_of, learned_by, rebuild_of
from motet.lab.loop.log import Log
from motet.lab.loop.settings import Policy
from motet.lab.loop.standing import InService, Stage, Standing, look
from motet.lab.loop.state import Learning, read_learning, write_learning
from motet.lab.loop.student import open_student

BY = "motet loop"


class Rounds:
    """The stages of one name. `advance` does the next one."""

    def __init__(self, policy: Policy, door: Door, folder: Path, log: Log, judges: Judges) -> None:
        connection = Connection(door.base_url, door.api_key)
        self._policy = policy
        self._door = door
        self._folder = folder
        self._log = log
        self._judges = judges
        self._names = Names(connection, by=BY)
        self._records = Records(connection)
        self._desk = Desk(self._records, policy)
        self._acts: dict[Stage, Callable[[Standing], Awaitable[bool]]] = {
            "open": self._open,
            "gather": self._gather,
            "learn": self._learn,
            "bring": self._bring,
            "gate": self._gate,
            "canary": self._canary,
        }

    def stage(self) -> Stage:
        """What is to be done next."""
        return self._standing().stage

    async def advance(self) -> bool:
        """Do what is next; False: nothing can be done yet."""
        standing = self._standing()
        return await self._acts[standing.stage](standing)

    def _standing(self) -> Standing:
        return look(self._policy.name, self._names, self._records, read_learning(self._folder))

    # -- the stages --------------------------------------------------------------------------------------------

    async def _open(self, standing: Standing) -> bool:
        async with self._door.session(f"{self._policy.name} opens") as service:
            student = await open_student(service, self._door, self._policy.run(0), None)
            kept = await student.keep("fresh")
        self._names.bring(self._policy.name, kept.serving, "nothing learned yet: the base model")
        self._log.say("open", "version 1 serves: the base model, before it has learned anything")
        return True

    async def _gather(self, standing: Standing) -> bool:
        name, number = _known(standing), len(standing.trainings) + 1
        if name.pinned:
            return False
        if name.path is not None and (rebuild := rebuild_of(standing.trainings, name.path)) is not None:
            recipe = {**self._policy.recipe, "rebuild": rebuild.paths}
            self._claim(number, rebuild.parent, Claim(replayed=rebuild.left), recipe)
            self._log.say("gather", f"somebody's data was deleted: {len(rebuild.left)} items are left to learn again")
            return True
        free = self._trusted()
        if not is_due(free, self._policy.when):
            return False
        claim = claim_of(free, learned_by(standing.trainings, name.path), self._policy, number)
        parent = name.path if self._policy.learn.parent == "serving" else None
        self._claim(number, parent, claim, self._policy.recipe)
        counts = f"{len(claim.items)} items, {len(claim.held_out)} held out, {len(claim.replayed)} of earlier rounds"
        self._log.say("gather", f"round {number}: {counts}", round=number)
        return True

    async def _learn(self, standing: Standing) -> bool:
        training, name, before = _newest(standing), _known(standing), standing.learning
        if before is not None and before.training == training.id and before.session:
            await self._door.clear_up(before.session, keep="")  # of a life that was killed
        self._step_back(training, name)
        items = self._desk.these(training.learned)
        if not items:
            self._records.close(training.id, None, "nothing is left to learn from")
            self._log.say("learn", "nothing is left to learn from: given up")
            return True
        try:
            await self._run(training, items, Learning(training.id))
        except tinker.RequestFailedError as error:
            if error.category != "user":
                raise
            self._spoilt(training, f"a step on them was refused: {error.message}")
        return True

    async def _bring(self, standing: Standing) -> bool:
        training, learning = _newest(standing), standing.learning
        assert learning is not None, "the stage says so"
        if learning.learned != training.learned:
            write_learning(self._folder, replace(learning, path=""))
            self._log.say("bring", "somebody's data was deleted meanwhile: it is learned again without")
            return True
        about = f"round {_number(training)}: {len(training.items)} items"
        told = self._names.bring(self._policy.name, learning.path, about, training.id)
        self._log.say("bring", f"version {told['candidate']} is the candidate", version=told["candidate"])
        return True

    async def _gate(self, standing: Standing) -> bool:
        training, name = _newest(standing), _known(standing)
        candidate = _version(training)
        if training.lost:
            verdict = Verdict(False, "somebody whose data it learned from was deleted")
        else:
            kept = sorted(
                {*held_out_of(standing.trainings, name.path), *held_out_of(standing.trainings, training.path)}
            )
            assert name.path is not None, "a candidate stands beside what serves"
            sides = Sides(name.path, name.paths[candidate])
            verdict = await self._judges.gate(sides, self._desk.these(kept))
        self._log.say("gate", verdict.reason, version=candidate, promote=verdict.promote, figures=verdict.figures)
        self._decide(name, candidate, verdict, self._policy.canary.share)
        return True

    async def _canary(self, standing: Standing) -> bool:
        training, name = _newest(standing), _known(standing)
        candidate = _version(training)
        began = datetime.fromisoformat(name.last_of(candidate)["time"])
        said = self._desk.said(after=max([*training.learned, *training.held_out], default=0))
        since = [one for one in said if datetime.fromisoformat(one.time) >= began]
        before, after = ([one for one in since if one.version == number] for number in (name.serving, candidate))
        minutes = (datetime.now(UTC) - began).total_seconds() / 60
        verdict = self._judges.canary(before, after, minutes)
        if verdict is None:
            return False
        self._log.say("canary", verdict.reason, version=candidate, promote=verdict.promote, figures=verdict.figures)
        self._decide(name, candidate, verdict, share=0.0)
        return True

    # -- their parts -------------------------------------------------------------------------------------------

    def _trusted(self) -> list[Item]:
        """What is free, but for what goes into quarantine now."""
        free = self._desk.free()
        doubted = set[int]()
        for doubt in self._judges.doubts(free):
            self._records.quarantine(doubt.items, doubt.reason)
            self._log.say("gather", f"{len(doubt.items)} items in quarantine: {doubt.reason}", items=doubt.items)
            doubted |= set(doubt.items)
        return [one for one in free if one.number not in doubted]

    def _claim(self, number: int, parent: str | None, claim: Claim, recipe: dict[str, Any]) -> None:
        key = f"{self._policy.name}-{number}"
        recipe = {**recipe, "model": self._door.model, "round": number}
        self._records.claim(key, self._policy.name, parent, claim.items, claim.replayed, claim.held_out, recipe)

    def _step_back(self, training: Training, name: InService) -> None:
        """What learned from somebody who was deleted serves no longer, while it is made again without."""
        spoilt = training.recipe.get("rebuild", ())
        if name.path not in spoilt:
            return
        clean = [number for number, path in name.paths.items() if path not in spoilt]
        parent = [number for number in clean if name.paths[number] == training.parent]
        self._names.promote(
            self._policy.name, (parent or clean)[0], "a person's data was deleted: the version before it"
        )
        self._log.say("learn", f"version {(parent or clean)[0]} serves until it is made again")

    async def _run(self, training: Training, items: list[Item], learning: Learning) -> None:
        """Learn and keep; the folder knows the session before anything is made in it, and the path once it is there."""
        number = _number(training)
        async with self._door.session(f"{self._policy.name} round {number}") as service:
            run = self._policy.run(number)
            student = await open_student(service, self._door, run, training.parent)
            learning = replace(learning, session=student.session)
            write_learning(self._folder, learning)
            seed = mix(self._policy.seed, number)
            learned = await learn(student, items, self._policy, seed, lambda text: self._log.say("learn", text))
            kept = await student.keep(f"round-{number}")
        self._log.say("learn", f"{learned.items} items in {learned.steps} steps", losses=learned.losses)
        write_learning(self._folder, replace(learning, path=kept.serving, learned=[one.number for one in items]))

    def _spoilt(self, training: Training, reason: str) -> None:
        """No training takes these items again."""
        self._records.close(training.id, None, reason)
        if training.items:
            self._records.quarantine(training.items, reason)
        self._log.say("learn", f"given up, and {len(training.items)} items are in quarantine: {reason}")

    def _decide(self, name: InService, candidate: int, verdict: Verdict, share: float) -> None:
        """Promoted, let out to a share of the traffic, or refused; the reason stands in the history."""
        if verdict.promote and not name.pinned and share == 0:
            self._names.promote(self._policy.name, candidate, verdict.reason)
        elif verdict.promote and not name.pinned:
            self._names.canary(self._policy.name, share, verdict.reason)
        else:
            reason = "the name was pinned meanwhile" if verdict.promote else verdict.reason
            self._names.canary(self._policy.name, 0.0, f"refused: {reason}")


def _known(standing: Standing) -> InService:
    assert standing.name is not None, "the stage says so"
    return standing.name


def _newest(standing: Standing) -> Training:
    assert standing.newest is not None, "the stage says so"
    return standing.newest


def _version(training: Training) -> int:
    assert training.version is not None, "it was brought"
    return training.version


def _number(training: Training) -> int:
    """Of its round."""
    return int(training.key.rpartition("-")[2])
