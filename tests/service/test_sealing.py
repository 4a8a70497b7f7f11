"""Exports sealed with age open with the recipient's key alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from motet.errors import BadRequest
from motet.service.http.sealing import read_recipients, seal_folder

pyrage = pytest.importorskip("pyrage")


def test_every_file_is_sealed_and_opens_again(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "a.json").write_bytes(b"one")
    (tmp_path / "sub" / "b.bin").write_bytes(bytes(100_000))
    ours, theirs = (pyrage.x25519.Identity.generate() for _ in range(2))
    seal_folder(tmp_path, read_recipients([str(ours.to_public())]))
    left = {str(file.relative_to(tmp_path)): file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()}
    assert set(left) == {"a.json.age", "sub/b.bin.age"}
    assert pyrage.decrypt(left["a.json.age"], [ours]) == b"one"
    assert pyrage.decrypt(left["sub/b.bin.age"], [ours]) == bytes(100_000)
    with pytest.raises(pyrage.DecryptError):
        pyrage.decrypt(left["a.json.age"], [theirs])


@pytest.mark.parametrize("wrong", ["age1nonsense", "ssh-ed25519 AAAA", "", "AGE-SECRET-KEY-1"])
def test_what_is_no_key_is_named(wrong: str) -> None:
    with pytest.raises(BadRequest, match="no age recipient"):
        read_recipients([wrong])


def test_keys_are_bounded() -> None:
    with pytest.raises(BadRequest, match="at most"):
        read_recipients(["age1"] * 65)
