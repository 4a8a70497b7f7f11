"""Word problems from a seeded generator: one or two operations, many phrasings, three disjoint splits.

A problem is an opening, an event or two and a question, each phrased in several ways, with random names,
things and numbers. Its split follows from its phrasing and numbers alone, so no combination of the two
that is trained on is ever asked in the held-out set, whatever the seeds.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random

from motet.errors import BadConfig
from motet.lab.envs.calculator import evaluate
from motet.lab.envs.problems import Problem, Split

SHAPES = ("+", "-", "*", "/", "++", "+-", "-+", "--", "*+", "*-", "*/")  # the operations, in order

NAMES = ("Ann", "Ben", "Cara", "Dan", "Eva", "Finn", "Gina", "Hugo", "Ida", "Jack", "Kate", "Leo", "Mia")
THINGS = ("apples", "books", "cards", "coins", "eggs", "flowers", "keys", "marbles", "pens", "plums", "toys")

# {a} somebody, {b} somebody else, {t} things, {n} a number, {m} another
HAS = (
    "{a} has {n} {t}.",
    "{a} owns {n} {t}.",
    "{a} has a box of {n} {t}.",
    "There are {n} {t} on the desk of {a}.",
)
GROUPS = (
    "{a} has {m} boxes with {n} {t} in each.",
    "{a} buys {m} bags of {n} {t} each.",
    "{m} friends each give {n} {t} to {a}.",
    "{a} fills {m} shelves with {n} {t} each.",
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
SHARE = (
    "{a} shares them equally among {n} friends. How many {t} does each friend get?",
    "{a} puts them into {n} equal boxes. How many {t} are in each box?",
    "{a} makes {n} equal piles. How many {t} are in each pile?",
)
EVENTS: dict[str, Sequence[str]] = {"+": GAIN, "-": LOSE, "/": SHARE}
NOW = (
    "How many {t} does {a} have now?",
    "How many {t} are there now?",
    "What is the number of {t} that {a} has now?",
)


@dataclass(frozen=True)
class WordProblems:
    """The generator: the same settings, split and index always give the same problem.

    operations: 1 or 2 for each problem; operators: which of + - * / may occur; seed: of the training
    problems (held-out problems and worked examples are the same for every seed). Raises BadConfig.
    """

    operations: int = 1
    operators: str = "+-*/"
    seed: int = 0

    def __post_init__(self) -> None:
        if not self._shapes():
            raise BadConfig(f"no {self.operations}-operation problem uses only {self.operators!r}")

    def _shapes(self) -> list[str]:
        return [s for s in SHAPES if len(s) == self.operations and set(s) <= set(self.operators)]

    def problem(self, split: Split, index: int) -> Problem:
        shapes = self._shapes()
        rng = Random(f"{self.seed if split == 'train' else 0}/{split}/{index}")
        while True:
            story = _Story(rng)
            story.tell(shapes[index % len(shapes)])  # in turn, so that every batch is balanced
            skeleton = " ".join(story.sentences)  # phrasings and numbers, before names and things
            if _split_of(skeleton) == split:
                break
        somebody, other = rng.sample(NAMES, 2)
        question = skeleton.format(a=somebody, b=other, t=rng.choice(THINGS))
        return Problem(question, evaluate(story.steps[-1]), tuple(story.steps))


def _split_of(skeleton: str) -> Split:
    """One skeleton in ten is held out and one in ten an example; the rest is for training."""
    bucket = zlib.crc32(skeleton.encode()) % 10
    return "held_out" if bucket == 0 else "example" if bucket == 1 else "train"


@dataclass
class _Story:
    """A problem in the making: the sentences so far, and the expressions that follow the count of things."""

    rng: Random
    sentences: list[str] = field(default_factory=list)
    steps: list[str] = field(default_factory=list)
    total: int = 0

    def tell(self, shape: str) -> None:
        """All sentences of a problem with these operations."""
        self._open(shape)
        for operator in shape.removeprefix("*"):
            self._event(operator)
        if not shape.endswith("/"):
            self._say(NOW)

    def _open(self, shape: str) -> None:
        if shape.startswith("*"):
            groups, size = self.rng.randint(2, 12), self.rng.randint(2, 12)
            self._say(GROUPS, m=groups, n=size)
            self._count(f"{groups}*{size}")
        else:
            composite = self.rng.randint(2, 9) * self.rng.randint(2, 12)
            self.total = composite if shape == "/" else self.rng.randint(5, 60)
            self._say(HAS, n=self.total)

    def _event(self, operator: str) -> None:
        if operator == "+":
            number = self.rng.randint(2, 60)
        elif operator == "-":
            number = self.rng.randint(1, max(1, self.total - 1))
        else:
            number = self.rng.choice([n for n in range(2, 13) if self.total % n == 0])
        self._say(EVENTS[operator], n=number)
        self._count(f"{self.total}{operator}{number}")

    def _say(self, phrasings: Sequence[str], **numbers: int) -> None:
        """Add one sentence: a phrasing with its numbers filled in; names and things come last."""
        sentence = self.rng.choice(phrasings)
        for letter, number in numbers.items():
            sentence = sentence.replace("{" + letter + "}", str(number))
        self.sentences.append(sentence)

    def _count(self, expression: str) -> None:
        self.steps.append(expression)
        self.total = int(evaluate(expression))
