"""Folders that are whole load; each way of being broken gives one clear error."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM

from motet.engine.models.base import open_base_model, resolve
from motet.engine.models.config import read_config
from motet.engine.models.default import check_sum
from motet.engine.models.loading import FolderWeights
from motet.engine.models.tokenizer import open_tokenizer, token_bytes
from motet.errors import BadRequest, EngineFault, NotFound
from tests.tiny import make_tiny_model


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
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "num_hidden_layers": 3, "layer_types": None}))
    with pytest.raises(NotFound, match=r"model\.layers\.2"):
        open_base_model(str(folder), "float32", "cpu")


def test_another_architecture_is_refused_by_name(folder: Path) -> None:
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "model_type": "gpt2"}))
    with pytest.raises(BadRequest, match="gpt2.*llama, qwen2, qwen3"):
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
