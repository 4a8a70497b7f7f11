"""Self-distillation of answers that were not written in an environment: a correction as a demonstration."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from motet.chat.template import Chat
from motet.lab.algorithms.self_distillation import Answer, demonstrated, taught
from tests.tiny import make_tokenizer


@dataclass
class Liking:
    """A judge who gives each token a hundredth of its number."""

    asked: list[list[int]] = field(default_factory=list)

    async def logprobs(self, tokens: Sequence[int]) -> list[float]:
        self.asked.append(list(tokens))
        return [0.0, *(-token / 100 for token in tokens[1:])]


def test_each_token_is_judged_by_who_has_seen_the_demonstration() -> None:
    judge = Liking()
    answers = [Answer([1, 2], [30, 40], [-0.5, -0.5], [7, 8, 9]), Answer([3], [50], [-0.5], [7])]
    first, second = asyncio.run(taught(answers, judge, weight=2.0))
    assert judge.asked == [[7, 8, 9, 30, 40], [7, 50]]
    # gains 0.2, 0.1 and 0.0, on average 0.1
    assert first.datum.model_input.to_ints() == [1, 2, 30]
    inputs = {key: tensor.to_numpy().tolist() for key, tensor in first.datum.loss_fn_inputs.items()}
    assert inputs["target_tokens"] == [2, 30, 40] and inputs["logprobs"] == [0, -0.5, -0.5]
    assert inputs["advantages"] == pytest.approx([0, 2 * 0.1 / 3, 0])
    assert second.datum.loss_fn_inputs["advantages"].to_numpy() == pytest.approx([-2 * 0.1 / 3])


def test_the_demonstration_stands_in_the_last_message(tmp_path: Path) -> None:
    tokenizer = make_tokenizer(tmp_path)
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "How many?"}]
    tokens = demonstrated(Chat(tokenizer), messages, "Two<|im_end|>.")
    text = tokenizer.decode(tokens)
    assert text.startswith("<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHow many?\n\n")
    assert "\nTwo<|im_end|>.\n" in text and text.endswith("<|im_end|>\n<|im_start|>assistant\n")
    assert messages[1]["content"] == "How many?"  # the student reads it as it was
    ends = demonstrated(Chat(tokenizer), messages, "Two<|im_end|>.").count(
        tokenizer.convert_tokens_to_ids("<|im_end|>")
    )
    assert ends == 2  # what a demonstration spells is no control token
