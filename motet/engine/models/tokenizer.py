"""The bytes behind every token, so that text can be found in what a sample writes as it writes."""

from __future__ import annotations

from pathlib import Path

from tokenizers import pre_tokenizers
from transformers import AutoTokenizer, PreTrainedTokenizerBase

from motet.errors import BadRequest


def open_tokenizer(folder: Path) -> PreTrainedTokenizerBase:
    """BadRequest where the folder has none that can be used."""
    try:
        tokenizer: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(folder)
    except (OSError, ValueError, KeyError) as error:
        raise BadRequest(f"the tokenizer of {folder} cannot be used: {error}") from error
    return tokenizer


def _byte_of() -> dict[str, int]:
    """The byte that each character of a byte-level vocabulary stands for (GPT-2's table).

    Printable bytes stand for themselves; the others are moved, in order, to 256 and above.
    """
    kept = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    moved = [byte for byte in range(256) if byte not in kept]
    table = {chr(byte): byte for byte in kept} | {chr(256 + i): byte for i, byte in enumerate(moved)}
    assert set(table) == set(pre_tokenizers.ByteLevel.alphabet())
    return table


def token_bytes(tokenizer: PreTrainedTokenizerBase) -> list[bytes]:
    """The bytes of every token id, special tokens as their text."""
    table = _byte_of()
    names = tokenizer.convert_ids_to_tokens(list(range(len(tokenizer))))
    special = set(tokenizer.all_special_tokens) | set(tokenizer.get_added_vocab())
    pieces = []
    for name in names:
        plain = name not in special and all(character in table for character in name)
        pieces.append(bytes(table[character] for character in name) if plain else name.encode())
    return pieces
