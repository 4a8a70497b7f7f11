"""From items of feedback to what algorithms take."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Literal

from motet.chat.template import Chat
from motet.lab.algorithms.examples import Completion, Judged, Pair
from motet.lab.algorithms.self_distillation import demonstrated
from motet.lab.envs.protocol import End, Group, Trajectory, Turn, Written
from motet.lab.loop.items import Item
from motet.lab.loop.settings import Learn

Way = Literal["self_distillation", "sft", "dpo", "kto", "reinforce"]


@dataclass(frozen=True)
class Shown:
    """A prompt, and the same with the correction in front of it, for whoever judges."""

    prompt: list[int]
    hint: list[int]


Lesson = Shown | Completion | Pair | Judged | Group


@dataclass(frozen=True)
class Portion:
    """What one step works on: items of one kind, by one way."""

    way: Way
    items: list[Item]


def way_of(item: Item, learn: Learn) -> Way | None:
    """How an item is learned; None: this policy has no use for it, or cannot have one.

    A policy gradient needs the tokens as they were drawn, which are not kept of conversations of elsewhere nor of
    answers that were blacked out.
    """
    chosen = {"correction": learn.corrections, "pair": learn.pairs, "verdict": learn.verdicts}[item.kind]
    if chosen == "off" or (chosen == "reinforce" and not item.written):
        return None
    return chosen


def portions(items: Sequence[Item], learn: Learn, seed: int) -> list[Portion]:
    """The steps of all epochs: every item once in each, in an order of its own."""
    found = []
    for epoch in range(learn.epochs):
        ways: dict[Way, list[Item]] = {}
        shuffled = sorted(items, key=lambda one: one.number)
        dice = Random(f"{seed}/{epoch}")
        dice.shuffle(shuffled)
        for item in shuffled:
            if (way := way_of(item, learn)) is not None:
                ways.setdefault(way, []).append(item)
        steps = [Portion(way, own) for way, whole in ways.items() for own in _evenly(whole, learn.batch)]
        dice.shuffle(steps)
        found += steps
    return found


def _evenly(items: Sequence[Item], size: int) -> list[list[Item]]:
    """As few parts as hold `size` items at most, of nearly equal size."""
    count = -(-len(items) // size)
    return [list(items[place::count]) for place in range(count)]


def lesson_of(item: Item, way: Way, learn: Learn, chat: Chat) -> Lesson:
    """What an algorithm takes of an item."""
    return MADE[way](item, learn, chat)


def _read(item: Item, chat: Chat) -> list[int]:
    """The prompt as it was read, else as it would be."""
    return item.read or chat.prompt(item.messages, item.tools)


def _answer(item: Item, chat: Chat) -> Completion:
    """The answer as it was written, else as it would have been."""
    return Completion.of(_read(item, chat), item.written or chat.answer(item.text))


def _better(item: Item) -> str:
    """What it should have been."""
    assert item.better is not None, "corrections and pairs have one"
    return item.better


def _shown(item: Item, learn: Learn, chat: Chat) -> Shown:
    return Shown(_read(item, chat), demonstrated(chat, item.messages, _better(item)))


def _corrected(item: Item, learn: Learn, chat: Chat) -> Completion:
    return Completion.of(_read(item, chat), chat.answer(_better(item)))


def _pair(item: Item, learn: Learn, chat: Chat) -> Pair:
    return Pair(_corrected(item, learn, chat), _answer(item, chat))


def _judged(item: Item, learn: Learn, chat: Chat) -> Judged:
    return Judged(_answer(item, chat), item.is_good(learn.good))


def _graded(item: Item, learn: Learn, chat: Chat) -> Group:
    """An episode of one turn that was lived in service, with what it earned. Version 0: no version of this run."""
    written = Written(item.written, item.logprobs, item.text, stopped=True)
    return Group(item.number, [Trajectory([Turn(_read(item, chat), written)], End(item.score or 0.0, "told"))])


MADE: Mapping[Way, Callable[[Item, Learn, Chat], Lesson]] = {
    "self_distillation": _shown,
    "sft": _corrected,
    "dpo": _pair,
    "kto": _judged,
    "reinforce": _graded,
}
