"""Folders that are whole load; each way of being broken gives one clear error."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import AutoModelForCausalLM, PreTrainedTokenizerFast

from motet.engine.models.base import open_base_model, resolve
from motet.engine.models.config import read_config
from motet.engine.models.default import check_sum
from motet.engine.models.loading import FolderWeights
from motet.engine.models.tokenizer import open_tokenizer, token_bytes
from motet.errors import BadRequest, EngineFault, NotFound
from tests.tiny import make_tiny_model


def edit(folder: Path, **changes: object) -> None:
    """Other lines in config.json."""
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, **changes}))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return make_tiny_model(tmp_path, "qwen2")


def test_sharded_folders_load_like_single_files(folder: Path, tmp_path: Path) -> None:
    AutoModelForCausalLM.from_pretrained(folder).save_pretrained(tmp_path / "sharded", max_shard_size="40KB")
    whole, sharded = load_file(folder / "model.safetensors"), FolderWeights(tmp_path / "sharded")
    assert len(list((tmp_path / "sharded").glob("*.safetensors"))) > 1
    assert set(whole) == set(sharded)
    assert all(torch.equal(whole[name], sharded[name]) for name in whole)


def test_a_missing_shard_is_named(folder: Path, tmp_path: Path) -> None:
    AutoModelForCausalLM.from_pretrained(folder).save_pretrained(tmp_path / "sharded", max_shard_size="40KB")
    gone = sorted((tmp_path / "sharded").glob("*.safetensors"))[0]
    gone.unlink()
    with pytest.raises(NotFound, match=gone.name):
        FolderWeights(tmp_path / "sharded")


def test_no_such_folder_no_such_name() -> None:
    with pytest.raises(NotFound, match="there is no folder"):
        resolve("/nowhere/at/all")


def test_a_folder_without_config_or_weights(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(NotFound, match=r"config\.json"):
        read_config(tmp_path)
    (folder / "model.safetensors").unlink()
    with pytest.raises(NotFound, match=r"no model\.safetensors"):
        open_base_model(str(folder), "float32", "cpu")


def test_a_torn_file(folder: Path) -> None:
    file = folder / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-1000])
    with pytest.raises(EngineFault, match="fetch it again"):
        open_base_model(str(folder), "float32", "cpu")


def test_a_missing_tensor_is_named(folder: Path) -> None:
    edit(folder, num_hidden_layers=3, layer_types=None)
    with pytest.raises(NotFound, match=r"model\.layers\.2"):
        open_base_model(str(folder), "float32", "cpu")


def test_another_architecture_is_refused_by_name(folder: Path) -> None:
    edit(folder, model_type="gpt2")
    with pytest.raises(BadRequest, match="gpt2.*llama, qwen2, qwen3"):
        read_config(folder)


REFUSED = [
    ({"intermediate_size": 96}, r"gate_proj\.weight has the shape \(112, 64\) .* \(96, 64\)"),
    ({"quantization_config": {"quant_method": "gptq", "bits": 4}}, "quantized"),
    ({"hidden_act": "gelu"}, "gelu"),
    ({"hidden_size": "wide"}, "hidden_size"),
    ({"num_key_value_heads": 3}, "not a multiple"),
    ({"layer_types": ["sliding_attention"] * 2, "use_sliding_window": True, "sliding_window": 64}, "sliding-window"),
    ({"rope_parameters": {"rope_type": "default", "rope_theta": 1e4, "partial_rotary_factor": 0.5}}, "rotary"),
    ({"rope_parameters": {"rope_type": "proportional", "rope_theta": 1e4, "factor": 2.0}}, "default, dynamic, linear"),
]


@pytest.mark.parametrize(("changes", "told"), REFUSED)
def test_what_cannot_be_run_is_refused(folder: Path, changes: dict[str, object], told: str) -> None:
    edit(folder, **changes)
    with pytest.raises(BadRequest, match=told):
        open_base_model(str(folder), "float32", "cpu")


def test_weights_of_another_type_are_refused(folder: Path) -> None:
    weights = load_file(folder / "model.safetensors")
    weights["model.layers.1.mlp.up_proj.weight"] = weights["model.layers.1.mlp.up_proj.weight"].to(torch.int8)
    save_file(weights, folder / "model.safetensors")
    with pytest.raises(BadRequest, match="up_proj.* stored as I8"):
        open_base_model(str(folder), "float32", "cpu")


def test_a_torn_index(folder: Path) -> None:
    (folder / "model.safetensors.index.json").write_text('{"weight')
    with pytest.raises(EngineFault, match="index"):
        open_base_model(str(folder), "float32", "cpu")


def test_a_name_that_no_hub_knows() -> None:
    with pytest.raises(NotFound, match="nobody/nothing.*choose SmolLM2-135M-Instruct, pocket, a folder"):
        resolve("nobody/nothing")


def test_configurations_of_older_transformers(folder: Path) -> None:
    """Rope at the top level of config.json, as most folders on hubs have it."""
    edit(
        folder,
        rope_parameters=None,
        rope_theta=5e5,
        rope_scaling={"type": "linear", "factor": 2.0},
        eos_token_id=[7, 9],
    )
    (folder / "generation_config.json").unlink()
    config = read_config(folder)
    exponents = torch.arange(0, config.head_width, 2) / config.head_width
    torch.testing.assert_close(config.inverse_frequencies, 0.5 / 5e5**exponents)
    assert config.end_tokens == (7, 9)


def test_end_tokens_of_the_generation_configuration_win(folder: Path) -> None:
    (folder / "generation_config.json").write_text('{"eos_token_id": [3, 5]}')
    assert read_config(folder).end_tokens == (3, 5)
    (folder / "generation_config.json").write_text('{"eos_token_id": 0}')
    assert read_config(folder).end_tokens == (0,)
    (folder / "generation_config.json").write_text("{}")
    assert read_config(folder).end_tokens == (open_tokenizer(folder).eos_token_id,)
    (folder / "generation_config.json").write_text("{")
    with pytest.raises(BadRequest, match="generation_config.json"):
        read_config(folder)


def test_a_wrong_checksum_names_both(tmp_path: Path) -> None:
    (tmp_path / "wheel.whl").write_bytes(b"something else")
    with pytest.raises(EngineFault, match="sha256 .* expected is abc"):
        check_sum(tmp_path / "wheel.whl", "abc")


def test_token_bytes_spell_any_text(folder: Path) -> None:
    tokenizer = open_tokenizer(folder)
    pieces = token_bytes(tokenizer)
    text = "Größe: 3 €\n\tok <|im_end|>"
    assert b"".join(pieces[i] for i in tokenizer(text)["input_ids"]).decode() == text
    shutil.rmtree(folder)
    with pytest.raises(BadRequest, match="tokenizer"):
        open_tokenizer(folder)


def test_token_bytes_of_sentencepiece_tokenizers() -> None:
    """Spaces written as ▁, unknown characters as single bytes: Llama 2's way."""
    pieces = ["<unk>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), "▁", "a", "b", "▁a"]
    vocabulary = {piece: index for index, piece in enumerate(pieces)}
    inner = Tokenizer(models.BPE(vocabulary, [("▁", "a")], unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    inner.pre_tokenizer = pre_tokenizers.Metaspace()
    inner.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=inner, eos_token="</s>", unk_token="<unk>")
    spelled = token_bytes(tokenizer)
    assert b"".join(spelled[i] for i in tokenizer.encode("ab aé")) == " ab aé".encode()
    assert spelled[1] == b"</s>"


def test_token_bytes_of_a_vocabulary_with_holes() -> None:
    inner = Tokenizer(models.WordLevel({"</s>": 0, "a": 1, "b": 4}, unk_token="</s>"))
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=inner, eos_token="</s>")
    assert token_bytes(tokenizer) == [b"</s>", b"a", b"", b"", b"b"]
