"""The pocket model's folder is whole and small, and its script trains on exactly what the environment builds."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from random import Random

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoTokenizer, PreTrainedTokenizerBase, Qwen3ForCausalLM

from motet.engine.models.base import POCKET, resolve
from motet.engine.models.config import read_config
from motet.engine.models.tokenizer import token_bytes
from motet.lab.envs.calculator import evaluate
from motet.lab.envs.formats.base import Call
from motet.lab.envs.formats.plain import INSTRUCTIONS, PlainFormat, solution
from motet.lab.envs.problems import Problem
from motet.lab.envs.protocol import Cue, End, Environment, Written
from motet.lab.envs.settings import WordProblemSettings
from scripts.pretrain_pocket import (
    Recipe,
    TransformersPolicy,
    episode,
    episodes,
    make_tokenizer,
    play,
    problem_at,
    spoil,
)

PROBLEMS = [problem_at(i) for i in range(300)]


@pytest.fixture(scope="module")
def folder() -> Path:
    return resolve(POCKET)


@pytest.fixture(scope="module")
def tokenizer(folder: Path) -> PreTrainedTokenizerBase:
    return AutoTokenizer.from_pretrained(folder)


@pytest.fixture(scope="module")
def model(folder: Path) -> Qwen3ForCausalLM:
    return Qwen3ForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()


def test_the_folder_is_small_and_whole(folder: Path, tokenizer: PreTrainedTokenizerBase) -> None:
    weights = load_file(folder / "model.safetensors")
    config = read_config(folder)
    assert {tensor.dtype for tensor in weights.values()} == {torch.bfloat16}
    assert 1_000_000 < sum(tensor.numel() for tensor in weights.values()) < 2_000_000
    assert sum(file.stat().st_size for file in folder.iterdir() if file.is_file()) < 5_000_000
    assert (config.family, config.tied_head, config.context) == ("qwen3", True, 512)
    assert config.vocabulary == len(tokenizer)
    assert config.end_tokens == (tokenizer.eos_token_id,)
    assert tokenizer.convert_ids_to_tokens(config.end_tokens[0]) == "<|im_end|>"
    assert (folder / "PROVENANCE.md").is_file()


def test_every_text_survives_the_tokenizer(tokenizer: PreTrainedTokenizerBase) -> None:
    pieces = token_bytes(tokenizer)
    others = ["error: division by zero", "naïve ✓ 數\t\n\n  ]", "Calculator[(2.5+3)*4]\n"]
    for text in [one.question for one in PROBLEMS] + [_text(one) for one in PROBLEMS] + others:
        tokens = tokenizer.encode(text, add_special_tokens=False)
        assert tokenizer.decode(tokens) == text
        assert b"".join(pieces[token] for token in tokens) == text.encode()


def test_words_digits_and_signs_are_one_token_each(tokenizer: PreTrainedTokenizerBase) -> None:
    question = "Ann owns 23 marbles. Ben takes 18 of them."
    said = [tokenizer.decode([token]) for token in tokenizer.encode(question)]
    assert "|".join(said) == "Ann| owns| |2|3| marbles|.| Ben| takes| |1|8| of| them|."
    said = [tokenizer.decode([token]) for token in tokenizer.encode("Calculator[23+18]\nResult: 41\n")]
    assert "|".join(said) == "Calculator|[|2|3|+|1|8|]|\n|Result|:| |4|1|\n"


def test_the_script_makes_the_tokenizer_that_is_shipped(folder: Path, tmp_path: Path) -> None:
    make_tokenizer().save_pretrained(tmp_path)
    for name in ("tokenizer.json", "chat_template.jinja"):
        assert (tmp_path / name).read_text() == (folder / name).read_text()


def test_spoiled_solutions_are_consistent_and_wrong() -> None:
    rng = Random(5)
    for problem in PROBLEMS:
        bad = spoil(problem, rng)
        assert bad.question == problem.question
        assert bad.answer != problem.answer and bad.answer.denominator == 1 and bad.answer >= 0
        assert len(bad.steps) == len(problem.steps) and bad.steps != problem.steps
        assert evaluate(bad.steps[-1]) == bad.answer


@pytest.mark.parametrize("operations", [1, 2])
def test_episodes_are_what_the_environment_would_have_seen(tokenizer: PreTrainedTokenizerBase, operations: int) -> None:
    """Played in the environment turn by turn, a right solution is paid and a spoiled one is not."""
    rng = Random(3)
    tasks = WordProblemSettings(operations=operations, operators="+-*/", examples=0).build(tokenizer, 71_001)
    for index in range(40):
        right = problem_at(2 * index + operations - 1)
        for problem in (right, spoil(right, rng)):
            made = episode(PlainFormat(tokenizer), tokenizer, problem)
            end, seen = asyncio.run(_play(tasks.train(index), tokenizer, problem))
            assert [*seen, tokenizer.eos_token_id] == made.tokens
            assert end.reward == (problem is right)
            assert INSTRUCTIONS in tokenizer.decode(made.tokens[: made.prompt])


async def _play(env: Environment, tokenizer: PreTrainedTokenizerBase, problem: Problem) -> tuple[End, list[int]]:
    """Write a problem's solution turn by turn; the end, and every token that was read or written."""
    calls = [piece.text for piece in solution(problem) if piece.written]
    cue = await env.start()
    seen: list[int] = []
    for text in calls:
        assert isinstance(cue, Cue)
        tokens = tokenizer.encode(text, add_special_tokens=False)
        seen += [*cue.tokens, *tokens]
        cue = await env.step(Written(tokens, [0.0] * len(tokens), text, stopped=True))
    assert isinstance(cue, End)
    return cue, seen


def test_batches_hold_parsable_calls_and_fit_the_context(tokenizer: PreTrainedTokenizerBase) -> None:
    form = PlainFormat(tokenizer)
    recipe = Recipe(steps=16, clean_steps=8, batch=4)
    batches = list(episodes(tokenizer, recipe))
    assert [len(batch) for batch in batches] == [4] * 16
    for made in (one for batch in batches for one in batch):
        assert len(made.tokens) < 200
        turns = tokenizer.decode(made.tokens[made.prompt : -1]).split("\n")
        calls = [form.read_call(turn) for turn in turns if not turn.startswith("Result: ")]
        assert None not in calls and calls[-1] == Call("FinalAnswer", turns[-1].removesuffix("]").split("[")[1])


def test_it_starts_imperfect(model: Qwen3ForCausalLM, tokenizer: PreTrainedTokenizerBase) -> None:
    """20 to 40 percent on held-out problems, with room for the chance of 48 samples."""
    tasks = WordProblemSettings(operations=1, operators="+-*/", examples=0).build(tokenizer, seed=0)
    measured = asyncio.run(play(TransformersPolicy(model, tokenizer), tasks, 48))
    assert 0.1 <= measured.accuracy <= 0.55
    assert measured.outcomes["right"] + measured.outcomes["wrong"] >= 44  # it knows the form


def test_the_generation_settings_are_plain_sampling(folder: Path) -> None:
    settings = json.loads((folder / "generation_config.json").read_text())
    assert settings["temperature"] == 1.0 and settings["do_sample"] is True


def _text(problem: Problem) -> str:
    return "".join(piece.text for piece in solution(problem))
