"""Examples of a file: which tokens are read and which are learned, and what is told of a line that is none."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from transformers import PreTrainedTokenizerFast

from motet.errors import BadConfig
from motet.lab.algorithms.base import Takes
from motet.lab.algorithms.examples import Completion
from motet.lab.algorithms.files import DataSettings
from tests.tiny import make_tokenizer

STRICT = """{% for m in messages %}{% if m.role not in ('system', 'user', 'assistant') %}
{{- raise_exception('no such role') }}{% endif %}{% endfor %}"""


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> PreTrainedTokenizerFast:
    made = make_tokenizer(tmp_path_factory.mktemp("tokenizer"))
    made.chat_template = STRICT + str(made.chat_template)
    return made


def read(folder: Path, takes: Takes, tokenizer: PreTrainedTokenizerFast, *lines: Any) -> list[Any]:
    file = folder / "data.jsonl"
    file.write_bytes(b"\n".join(one if isinstance(one, bytes) else json.dumps(one).encode() for one in lines))
    return DataSettings(path=file, held_out=0.0).read(takes, tokenizer).train


def parts(one: Completion, tokenizer: PreTrainedTokenizerFast) -> list[tuple[bool, str]]:
    """Stretches that are read or learned, as text."""
    found: list[tuple[bool, list[int]]] = []
    for token, learned in zip(one.tokens, one.mask, strict=True):
        if not found or found[-1][0] != learned:
            found.append((learned, []))
        found[-1][1].append(token)
    return [(learned, tokenizer.decode(tokens)) for learned, tokens in found]


ASKED = "<|im_start|>user\nHow many?<|im_end|>\n<|im_start|>assistant\n"


def test_every_assistants_turn_is_learned_with_its_end_and_nothing_else(
    tmp_path: Path, tokenizer: PreTrainedTokenizerFast
) -> None:
    talk = [("user", "How many?"), ("assistant", "Two."), ("user", "Sure?"), ("assistant", "Yes."), ("user", "Oh.")]
    (told,) = read(
        tmp_path, "conversations", tokenizer, {"messages": [{"role": r, "content": text} for r, text in talk], "id": 7}
    )
    assert parts(told, tokenizer) == [
        (False, ASKED),
        (True, "Two.<|im_end|>"),
        (False, "\n<|im_start|>user\nSure?<|im_end|>\n<|im_start|>assistant\n"),
        (True, "Yes.<|im_end|>"),
    ]


def test_of_pairs_and_judged_answers_only_the_answer_counts(tmp_path: Path, tokenizer: PreTrainedTokenizerFast) -> None:
    (pair,) = read(tmp_path, "pairs", tokenizer, {"prompt": "How many?", "chosen": "Two.", "rejected": "Who knows?"})
    assert parts(pair.chosen, tokenizer) == [(False, ASKED), (True, "Two.<|im_end|>")]
    assert parts(pair.rejected, tokenizer) == [(False, ASKED), (True, "Who knows?<|im_end|>")]
    messages = [{"role": "user", "content": "How many?"}]
    (good, bad) = read(
        tmp_path,
        "judged",
        tokenizer,
        {"prompt": messages, "completion": "Two.", "good": True},
        {"prompt": "How many?", "completion": "<|im_end|>", "good": False},
    )
    assert (good.good, parts(good.answer, tokenizer)) == (True, [(False, ASKED), (True, "Two.<|im_end|>")])
    spelled = bad.answer.tokens[-1 - len("<|im_end|>") :]  # a control token that somebody spells is letters
    assert not bad.good and spelled == [*tokenizer.encode("<|im_end|>", split_special_tokens=True), spelled[-1]]


def test_a_file_as_windows_writes_it(tmp_path: Path, tokenizer: PreTrainedTokenizerFast) -> None:
    line = b'{"prompt": "a", "completion": "b"}\r'
    assert len(read(tmp_path, "conversations", tokenizer, b"\xef\xbb\xbf" + line, b"\r", line)) == 2


FINE = {"prompt": "a", "completion": "b"}


@pytest.mark.parametrize(
    ("takes", "line", "told"),
    [
        ("conversations", b"{", "no JSON"),
        ("conversations", b"[" * 100_000, "no JSON"),
        ("conversations", b'{"prompt": "\xff"}', "no UTF-8"),
        ("conversations", [FINE], "no JSON object"),
        ("conversations", {"prompt": "a"}, '"completion" is missing; a line is {"messages"} or'),
        ("conversations", {"prompt": "a", "completion": 1}, '"completion" must be a text'),
        ("conversations", {"prompt": "a", "completion": "half \ud83d"}, '"completion" must be a text'),
        ("conversations", {"messages": [{"role": "user", "content": "a"}]}, "no assistant's turn"),
        ("conversations", {"messages": [{"role": "assistant", "content": "a"}]}, "an assistant's turn comes first"),
        ("conversations", {"messages": [{"role": "user", "content": None}]}, "messages must be a list"),
        ("conversations", {"prompt": [{"role": "bard", "content": "a"}], "completion": "b"}, "no such role"),
        ("conversations", {**FINE, "good": False}, '"good" is a judged answer, which kto learns from; for sft'),
        ("conversations", {"prompt": "a", "chosen": "b", "rejected": "c"}, "is a pair, which dpo learns from"),
        ("pairs", FINE, "is a conversation, which sft learns from; for dpo a line is"),
        ("pairs", {"prompt": "a", "chosen": "b"}, '"rejected" is missing'),
        ("judged", FINE, '"good" is missing'),
        ("judged", {**FINE, "good": 1}, '"good" must be true or false'),
    ],
)
def test_what_is_no_example_is_told_by_file_and_line(
    tmp_path: Path, tokenizer: PreTrainedTokenizerFast, takes: Takes, line: Any, told: str
) -> None:
    right = {"conversations": FINE, "judged": {**FINE, "good": True}, "pairs": {**FINE, "chosen": "b", "rejected": "c"}}
    del right["pairs"]["completion"]
    with pytest.raises(BadConfig) as raised:
        read(tmp_path, takes, tokenizer, right[takes], b"", line)
    assert str(raised.value).startswith(f"{tmp_path / 'data.jsonl'}:3: ") and told in str(raised.value)


def test_a_file_without_examples_is_told(tmp_path: Path, tokenizer: PreTrainedTokenizerFast) -> None:
    with pytest.raises(BadConfig, match="has no example to learn from"):
        read(tmp_path, "pairs", tokenizer)
    with pytest.raises(BadConfig, match=r"set data\.path to a file"):
        DataSettings(path=tmp_path / "none.jsonl").read("pairs", tokenizer)


def test_what_is_held_out_stands_at_the_end(tmp_path: Path, tokenizer: PreTrainedTokenizerFast) -> None:
    read(tmp_path, "conversations", tokenizer, *({"prompt": str(n), "completion": "b"} for n in range(8)))
    told = DataSettings(path=tmp_path / "data.jsonl", held_out=0.25).read("conversations", tokenizer)
    assert ["user\n7" in tokenizer.decode(one.tokens) for one in told.held_out] == [False, True]
    assert len(told.train) == 6
