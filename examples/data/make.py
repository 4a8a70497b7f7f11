"""Makes the examples of this folder: notes and intervals, counted in letters. `python examples/data/make.py`.

talks.jsonl for sft, pairs.jsonl for dpo (a short answer against a long-winded one), judged.jsonl for kto.
"""

from __future__ import annotations

import json
import random
from pathlib import Path

NOTES = "CDEFGAB"
INTERVALS = ("second", "third", "fourth", "fifth", "sixth", "seventh")
HERE = Path(__file__).parent
Line = dict[str, object]


def answer(note: str, steps: int) -> str:
    """The letter so many steps further; below for negative ones."""
    return NOTES[(NOTES.index(note) + steps) % len(NOTES)]


def long_winded(note: str, steps: int) -> str:
    """The same, said at length."""
    way = 1 if steps > 0 else -1
    counted = ", ".join(answer(note, way * i) for i in range(abs(steps) + 1))
    found = answer(note, steps)
    return f"That is an interesting question. Let us count: {counted}. So the note that you are looking for is {found}."


def main() -> None:
    """Every question once, in an order that never changes."""
    asked = [
        (f"Which note is a {name} {where} {note}?", note, way * (place + 1))
        for note in NOTES
        for place, name in enumerate(INTERVALS)
        for where, way in (("above", 1), ("below", -1))
    ]
    random.Random(0).shuffle(asked)
    talks, pairs, judged = list[Line](), list[Line](), list[Line]()
    for question, note, steps in asked:
        short, long = f"{answer(note, steps)}.", long_winded(note, steps)
        said = [{"role": "user", "content": question}, {"role": "assistant", "content": short}]
        talks.append({"messages": said})
        pairs.append({"prompt": question, "chosen": short, "rejected": long})
        judged += [
            {"prompt": question, "completion": text, "good": good} for text, good in ((short, True), (long, False))
        ]
    for name, lines in (("talks", talks), ("pairs", pairs), ("judged", judged)):
        text = "".join(json.dumps(line) + "\n" for line in lines)
        (HERE / f"{name}.jsonl").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
