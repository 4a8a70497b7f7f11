"""Exports encrypted with age (age-encryption.org), for those whose keys the client names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from motet.errors import BadRequest

SUFFIX = ".age"
MAX_RECIPIENTS = 64


def read_recipients(texts: list[str]) -> list[Any]:
    """Recipients as the age library takes them. BadRequest names the one that is none, or what is not installed."""
    try:
        import pyrage
    except ImportError:
        raise BadRequest(
            "this server cannot encrypt exports: leave age_encryption_recipients out, or install motet[age] there"
        ) from None
    if len(texts) > MAX_RECIPIENTS:
        raise BadRequest(f"age_encryption_recipients has {len(texts)} keys: at most {MAX_RECIPIENTS} are taken")
    found = []
    for text in texts:
        kind = pyrage.ssh if text.startswith("ssh-") else pyrage.x25519
        try:
            found.append(kind.Recipient.from_str(text))
        except pyrage.RecipientError:
            raise BadRequest(f"{text[:80]!r} is no age recipient: send age1... or an SSH public key") from None
    return found


def seal_folder(folder: Path, recipients: list[Any]) -> None:
    """Replace every file by its encryption, with .age at the end of its name."""
    import pyrage

    for file in [file for file in folder.rglob("*") if file.is_file()]:
        pyrage.encrypt_file(str(file), str(file.with_name(file.name + SUFFIX)), recipients)
        file.unlink()
