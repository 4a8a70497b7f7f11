"""The base model's tokenizer, as the HTTP process needs it: loaded once, when somebody first asks for words.

`transformers` brings torch into this process; so it, too, is imported only then.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from motet.chat.template import Chat
from motet.engine.types import IntArray
from motet.errors import BadRequest

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

UNFINISHED = "\ufffd"  # half a character decodes to this


class Language:
    """Tokens and words."""

    def __init__(self, folder: Callable[[], str]) -> None:
        """folder: where the tokenizer lies, once the engine is there."""
        self._folder = folder
        self._loading = asyncio.Lock()
        self._encoding = asyncio.Lock()
        self._chat: Chat | None = None
        self._longest = 0  # characters of a token

    async def chat(self) -> Chat:
        """The tokenizer with its chat template."""
        async with self._loading:
            if self._chat is None:
                chat = await asyncio.to_thread(_load, self._folder())
                self._longest = max(map(len, chat.tokenizer.get_vocab()))
                self._chat = chat
        return self._chat

    async def prompt(self, characters: int, context: int, encode: Callable[[Chat], IntArray]) -> IntArray:
        """Words as tokens, in a thread: a long text takes its time. One at a time: the tokenizer has modes.

        BadRequest: more characters than so many tokens can spell.
        """
        chat = await self.chat()
        if characters > context * self._longest:
            raise BadRequest(
                f"the prompt is {characters} characters and the context holds {context} tokens: shorten it"
            )
        async with self._encoding:
            return await asyncio.to_thread(encode, chat)


def _load(folder: str) -> Chat:
    from transformers import AutoTokenizer

    return Chat(AutoTokenizer.from_pretrained(folder))


class Words:
    """The text of one sample, as its tokens come; what may be the beginning of a stop string is held back."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase, stops: Sequence[str], tokens: Sequence[int] = ()) -> None:
        self._tokenizer = tokenizer
        self._stops = [stop for stop in stops if stop]
        self._tokens = list(tokens)
        self._said = 0  # characters

    def add(self, token: int) -> str:
        """What can be said now for certain."""
        self._tokens.append(token)
        text = self.text
        if text.endswith(UNFINISHED):
            text = text.rstrip(UNFINISHED)
        certain = len(text) - max((_begins(text, stop) for stop in self._stops), default=0)
        new = text[self._said : certain]
        self._said = max(self._said, certain)
        return new

    def rest(self) -> str:
        """What was held back; the sample is over."""
        text = self.text
        new = text[self._said :]
        self._said = len(text)
        return new

    @property
    def text(self) -> str:
        """Everything, up to the first stop string."""
        text = str(self._tokenizer.decode(self._tokens, skip_special_tokens=True))
        places = [place for stop in self._stops if (place := text.find(stop)) >= 0]
        return text[: min(places)] if places else text


def _begins(text: str, stop: str) -> int:
    """How many characters at the end of a text may be the beginning of a stop string."""
    return next((size for size in range(len(stop) - 1, 0, -1) if text.endswith(stop[:size])), 0)
