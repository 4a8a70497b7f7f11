"""Word problems from a seeded generator: one or two operations, many phrasings, three disjoint splits.

A problem is an opening, an event or two and a question, each phrased in several ways, with random names,
objects and numbers. Its split follows from its phrasing and numbers alone, so no combination of the two
that is trained on is ever asked in the held-out set, whatever the seeds.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from random import Random

from motet.lab.envs.calculator import evaluate
from motet.lab.envs.problems import Problem, Split

NAMES = "Ann Ben Cara Dan Eva Finn Gina Hugo Ida Jack Kate Leo Mia Nick Olga Paul".split()
THINGS = "apples books cards coins eggs flowers keys marbles pens plums shells stamps stars toys".split()

HAS = (  # {a} somebody, {b} somebody else, {t} things, {n} a number
    "{a} has {n} {t}.",
    "{a} owns {n} {t}.",
    "{a} has a box of {n} {t}.",
    "There are {n} {t} on the desk of {a}.",
)
GAIN = (
    "{a} buys {n} more.",
    "{a} finds {n} more.",
    "{b} gives {a} {n} more.",
    "Then {a} gets {n} more from {b}.",
    "{b} brings another {n} {t} to {a}.",
)
LOSE = (
    "{a} gives {n} to {b}.",
    "{a} loses {n} of them.",
    "{a} sells {n} {t} to {b}.",
    "{b} takes {n} of them.",
    "Then {a} throws away {n} {t}.",
)
NOW = (
    "How many {t} does {a} have now?",
    "How many {t} are there now?",
    "What is the number of {t} that {a} has now?",
)
GROUPS = (  # {m} groups of {n}
    "{a} has {m} boxes with {n} {t} in each.",
    "{a} buys {m} bags of {n} {t} each.",
    "{m} friends each give {n} {t} to {a}.",
    "{a} fills {m} shelves with {n} {t} each.",
)
SHARE = (
    "{a} shares them equally among {n} friends. How many {t} does each friend get?",
    "{a} puts them into {n} equal boxes. How many {t} are in each box?",
    "{a} makes {n} equal piles. How many {t} are in each pile?",
)


@dataclass
class _Story:
    """A problem in the making: sentences so far, and the expressions that follow the number of things."""

    rng: Random
    sentences: list[str]
    steps: list[str]
    total: int = 0

    def say(self, phrasings: tuple[str, ...], **numbers: int) -> None:
        """Add one sentence: a phrasing with its numbers filled in; names and things come last."""
        sentence = self.rng.choice(phrasings)
        for letter, number in numbers.items():
            sentence = sentence.replace("{" + letter + "}", str(number))
        self.sentences.append(sentence)

    def open_groups(self) -> None:
        """So many groups of so many things: a product."""
        groups, size = self.rng.randint(2, 12), self.rng.randint(2, 12)
        self.say(GROUPS, m=groups, n=size)
        self._apply(f"{groups}*{size}")

    def open_plain(self, total: int) -> None:
        self.say(HAS, n=total)
        self.total = total

    def gain_or_lose(self, gain: bool) -> None:
        number = self.rng.randint(2, 60) if gain else self.rng.randint(1, self.total - 1)
        self.say(GAIN if gain else LOSE, n=number)
        self._apply(f"{self.total}{'+' if gain else '-'}{number}")

    def share(self, parts: int) -> None:
        self.say(SHARE, n=parts)
        self._apply(f"{self.total}/{parts}")

    def _apply(self, expression: str) -> None:
        self.steps.append(expression)
        self.total = int(evaluate(expression))


@dataclass(frozen=True)
class WordProblems:
    """The generator. `operations` is 1 or 2; the same (seed, split, index) always gives the same problem."""

    operations: int = 1
    seed: int = 0

    def problem(self, split: Split, index: int) -> Problem:
        rng = Random(f"{self.seed}/{self.operations}/{split}/{index}")
        while True:
            story = self._story(rng)
            skeleton = " ".join(story.sentences)  # phrasing and numbers, before names and things
            if _split_of(skeleton) == split:
                break
        somebody, other = rng.sample(NAMES, 2)
        question = skeleton.format(a=somebody, b=other, t=rng.choice(THINGS))
        answer = evaluate(story.steps[-1])
        return Problem(question, answer, tuple(story.steps))

    def _story(self, rng: Random) -> _Story:
        """One of four shapes for each number of operations."""
        story = _Story(rng, [], [])
        kind = rng.choice(("gain", "lose", "groups", "share"))
        if self.operations == 1:
            self._one_operation(story, kind)
        else:
            self._two_operations(story, kind)
        if kind != "share":
            story.say(NOW)
        return story

    @staticmethod
    def _one_operation(story: _Story, kind: str) -> None:
        if kind == "groups":
            story.open_groups()
        elif kind == "share":
            parts = story.rng.randint(2, 9)
            story.open_plain(parts * story.rng.randint(2, 12))
            story.share(parts)
        else:
            story.open_plain(story.rng.randint(5, 60))
            story.gain_or_lose(kind == "gain")

    @staticmethod
    def _two_operations(story: _Story, kind: str) -> None:
        if kind == "groups":
            story.open_groups()
            story.gain_or_lose(story.rng.random() < 0.5)
        elif kind == "share":
            story.open_groups()
            story.share(story.rng.choice([n for n in range(2, story.total + 1) if story.total % n == 0]))
        else:
            story.open_plain(story.rng.randint(5, 60))
            story.gain_or_lose(kind == "gain")
            story.gain_or_lose(story.total < 2 or story.rng.random() < 0.5)


def _split_of(skeleton: str) -> Split:
    """One skeleton in ten is held out and one in ten an example; the rest is for training."""
    bucket = zlib.crc32(skeleton.encode()) % 10
    return "held_out" if bucket == 0 else "example" if bucket == 1 else "train"

