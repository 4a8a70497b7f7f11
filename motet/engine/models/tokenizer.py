"""The bytes behind every token, so that text can be found in what a sample writes as it writes."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path

from tokenizers import pre_tokenizers
from transformers import AutoTokenizer, PreTrainedTokenizerBase

from motet.errors import BadRequest

_SINGLE_BYTE = re.compile("<0x([0-9A-F]{2})>")


def open_tokenizer(folder: Path) -> PreTrainedTokenizerBase:
    """BadRequest where the folder has none that can be used."""
    try:
        tokenizer: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(folder)
    except (OSError, ValueError, KeyError) as error:
        raise BadRequest(f"the tokenizer of {folder} cannot be used: {error}") from error
    return tokenizer


@cache
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
    """The bytes of every token id, special tokens as their text; b"" where the vocabulary has a hole."""
    vocabulary = tokenizer.get_vocab()
    special = set(tokenizer.all_special_tokens) | set(tokenizer.get_added_vocab())
    spell = _spell_byte_level if _is_byte_level(tokenizer) else _spell_pieces
    pieces = [b""] * (max(vocabulary.values()) + 1)
    for name, token in vocabulary.items():
        pieces[token] = name.encode() if name in special else spell(name)
    return pieces


def _is_byte_level(tokenizer: PreTrainedTokenizerBase) -> bool:
    """Otherwise it writes spaces as `▁` and single bytes as `<0x0A>`, as Llama 2's does."""
    return '"ByteLevel"' in json.dumps(json.loads(tokenizer.backend_tokenizer.to_str())["decoder"])


def _spell_byte_level(name: str) -> bytes:
    table = _byte_of()
    return bytes(table[c] for c in name) if all(c in table for c in name) else name.encode()


def _spell_pieces(name: str) -> bytes:
    single = _SINGLE_BYTE.fullmatch(name)
    return bytes.fromhex(single[1]) if single else name.replace("▁", " ").encode()
