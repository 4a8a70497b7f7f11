"""Logits of the decoder against `transformers`, for every family."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM

from motet.engine.models.base import open_base_model
from motet.engine.ops.attention import KVPool, PagedRows, paged_attention
from tests.tiny import make_tiny_model

VARIANTS = [
    ("llama", {}),
    ("llama", {"tie_word_embeddings": True, "attention_bias": True, "mlp_bias": True}),
    (
        "llama",
        {
            "rope_parameters": {
                "rope_type": "llama3",
                "rope_theta": 10000.0,
                "factor": 4.0,
                "low_freq_factor": 1.0,
                "high_freq_factor": 4.0,
                "original_max_position_embeddings": 64,
            }
        },
    ),
    ("qwen2", {}),
    ("qwen2", {"tie_word_embeddings": True}),
    ("qwen3", {}),
    (
        "qwen3",
        {
            "rope_parameters": {
                "rope_type": "yarn",
                "rope_theta": 10000.0,
                "factor": 4.0,
                "original_max_position_embeddings": 128,
            }
        },
    ),
    ("qwen3", {"num_attention_heads": 6, "num_key_value_heads": 1}),
]


@torch.no_grad()
def our_logits(folder: Path, tokens: torch.Tensor, dtype: str) -> torch.Tensor:
    decoder = open_base_model(str(folder), dtype, "cpu").decoder
    config, length = decoder.config, len(tokens)
    pool = KVPool(config.layers, 32, config.kv_heads, config.head_width, decoder.dtype, decoder.device)
    places = torch.arange(length) + 16  # from the second block on
    table = torch.arange(1, 31, dtype=torch.int32)[None].numpy()
    rows = PagedRows(torch.tensor([0, length]).int().numpy(), table, torch.tensor([0]).int().numpy())

    def attend(layer, q, k, v):  # type: ignore[no-untyped-def]
        pool.write(layer, k, v, places)
        return paged_attention(q, pool, layer, rows, decoder.scale)

    x = decoder.embedded(tokens)
    for index in range(config.layers):
        x = decoder.layer(index, x, torch.arange(length), attend, None)
    return decoder.logits(decoder.normed(x), None)


@pytest.mark.parametrize(("family", "changes"), VARIANTS)
def test_logits_agree_with_transformers(tmp_path: Path, family: str, changes: dict[str, object]) -> None:
    folder = make_tiny_model(tmp_path, family, **changes)
    tokens = torch.randint(0, 300, (150,), generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        theirs = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)(tokens[None]).logits[0]
    ours = our_logits(folder, tokens, "float32")
    torch.testing.assert_close(ours, theirs, atol=2e-4, rtol=1e-4)
    rounded = our_logits(folder, tokens, "bfloat16")
    assert (rounded - theirs).abs().mean() < 0.05 * theirs.abs().mean()


def test_parameters_are_counted_as_transformers_counts_them(tmp_path: Path) -> None:
    for family, changes in VARIANTS[:2] + VARIANTS[3:6]:
        folder = make_tiny_model(tmp_path / str(len(list(tmp_path.iterdir()))), family, **changes)
        expected = AutoModelForCausalLM.from_pretrained(folder).num_parameters()
        assert open_base_model(str(folder), "float32", "cpu").decoder.parameters() == expected
