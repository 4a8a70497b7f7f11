"""Conversations as tokens, from the tokenizer's own chat template.

What a policy has read and written is never tokenized again: a conversation grows by what the template puts between an
assistant's turn and the next one, so templates that rewrite history (Qwen3 drops earlier thoughts) change nothing
that was read. Text that people or tools wrote never becomes a control token: where it spells one, it is tokenized as
plain text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from motet.errors import BadConfig

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

Message = dict[str, Any]  # as chat templates take them: role, content, and for some tool_calls, name, tool_call_id
_PLACE = "(motet: here the assistant's turn stands)"
_TOOLS = """You can call tools. A call is a turn of its own, in this form:
<tool_call>{"name": "the tool", "arguments": {"its parameter": "a value"}}</tool_call>
These are the tools, each on a line:
"""


def encode(tokenizer: PreTrainedTokenizerBase, text: str) -> list[int]:
    """The tokens of exactly this text, control tokens too: nothing is put before or after it."""
    return [int(token) for token in tokenizer.encode(text, add_special_tokens=False)]


def encode_plain(tokenizer: PreTrainedTokenizerBase, text: str) -> list[int]:
    """The tokens of exactly this text, where a control token's spelling is letters like any other."""
    return [int(token) for token in tokenizer.encode(text, add_special_tokens=False, split_special_tokens=True)]


@dataclass(frozen=True)
class Spans:
    """Tokens, and which of them an assistant wrote."""

    tokens: list[int] = field(default_factory=list)
    mask: list[bool] = field(default_factory=list)

    def grown(self, tokens: Sequence[int], written: bool) -> Spans:
        return Spans([*self.tokens, *tokens], [*self.mask, *[written] * len(tokens)])


class Chat:
    """One tokenizer's way to put a conversation. Without a chat template: bare text, a line a message.

    thinking: False asks the assistant to speak at once, where the template knows how.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase, thinking: bool = True) -> None:
        self.tokenizer = tokenizer
        self._options: dict[str, Any] = {} if thinking else {"enable_thinking": False}
        self.end = str(tokenizer.eos_token or "")  # ends an assistant's turn, where the template says so
        control = sorted(map(str, tokenizer.get_added_vocab()), key=len, reverse=True)
        self._control = re.compile("|".join(map(re.escape, control)) or r"(?!)")

    def prompt(self, messages: Sequence[Message], tools: Sequence[Message] = ()) -> list[int]:
        """All that is read before the assistant's turn. Tools that the template does not show are told in words."""
        if tools and not self.takes_tools(tools):
            messages, tools = _with_tools(messages, tools), ()
        if self.tokenizer.chat_template is None:
            text = "".join(f"{one['content']}\n" for one in messages)
            return [int(token) for token in self.tokenizer.encode(text, split_special_tokens=True)]  # after its BOS
        return self._rendered(messages, tools)

    def between(self, new: Sequence[Message], written: str, tools: Sequence[Message] = ()) -> list[int]:
        """What is inserted after an assistant's turn (`written` is its text) so that it reads these messages next.

        Raises BadConfig where the template shows no message of this role.
        """
        if self.tokenizer.chat_template is None:
            newline = "" if written.endswith("\n") else "\n"
            return encode_plain(self.tokenizer, newline + "".join(f"{one['content']}\n" for one in new))
        before: list[Message] = [{"role": "user", "content": "?"}, {"role": "assistant", "content": _PLACE}]
        pieces = self._pieces([*before, *new], tools)
        after = _after_the_turn(pieces)
        if self.end and written.endswith(self.end) and after[0].text.startswith(self.end):
            after = [Piece(after[0].text.removeprefix(self.end), False), *after[1:]]
        return self._encoded(after)

    def answer(self, text: str) -> list[int]:
        """An assistant's answer as it would have written it, the end of its turn included."""
        tokens = encode_plain(self.tokenizer, text)
        return [*tokens, *encode(self.tokenizer, self.end)]

    def conversation(self, messages: Sequence[Message], tools: Sequence[Message] = ()) -> Spans:
        """A whole conversation as it would have been lived: assistants' turns written, everything else read."""
        spans, waiting, last = Spans(), list[Message](), None
        for message in messages:
            if message["role"] != "assistant":
                waiting.append(message)
                continue
            read = self.prompt(waiting, tools) if last is None else self.between(waiting, last, tools)
            written = self.answer(message["content"])
            spans = spans.grown(read, False).grown(written, True)
            waiting, last = [], message["content"] + self.end
        return spans

    # -- rendering ----------------------------------------------------------------------------------------------

    def render(self, messages: Sequence[Message], tools: Sequence[Message] = ()) -> str:
        """The template's text, up to where the assistant begins."""
        shown = {**self._options, "tools": list(tools)} if tools else self._options
        return str(
            self.tokenizer.apply_chat_template(list(messages), tokenize=False, add_generation_prompt=True, **shown)
        )

    def takes_tools(self, tools: Sequence[Message]) -> bool:
        """Does the template show tools, and their results?"""
        if self.tokenizer.chat_template is None:
            return False
        question = [{"role": "user", "content": "?"}]
        shown = self.render(question, tools)
        return tools[0]["function"]["name"] in shown and shown != self.render(question)

    def _rendered(self, messages: Sequence[Message], tools: Sequence[Message]) -> list[int]:
        return self._encoded(self._pieces(messages, tools))

    def _pieces(self, messages: Sequence[Message], tools: Sequence[Message]) -> list[Piece]:
        """The rendered text; what other people wrote apart from it where it spells a control token."""
        marks: dict[str, str] = {}
        marked = [self._marked(message, marks) for message in messages]
        text = self.render(marked, tools)
        if not marks:
            return [Piece(text, False)]
        parts = re.split(f"({'|'.join(map(re.escape, marks))})", text)
        return [Piece(marks[part], True) if part in marks else Piece(part, False) for part in parts if part]

    def _marked(self, message: Message, marks: dict[str, str]) -> Message:
        content = message.get("content")
        if not isinstance(content, str) or content == _PLACE or not self._control.search(content):
            return message
        mark = f"(motet: content {len(marks)})"
        marks[mark] = content
        return {**message, "content": mark}

    def _encoded(self, pieces: Sequence[Piece]) -> list[int]:
        encoders = {False: encode, True: encode_plain}
        return [token for piece in pieces for token in encoders[piece.plain](self.tokenizer, piece.text)]


@dataclass(frozen=True)
class Piece:
    """A stretch of rendered text. plain: a control token in it is only a spelling."""

    text: str
    plain: bool


def _with_tools(messages: Sequence[Message], tools: Sequence[Message]) -> list[Message]:
    """The tools at the end of what the system says, else before what is said first."""
    told = _TOOLS + "\n".join(json.dumps(tool["function"], ensure_ascii=False) for tool in tools)
    first, *rest = messages
    content = f"{first['content']}\n\n{told}" if first["role"] == "system" else f"{told}\n\n{first['content']}"
    return [{**first, "content": content}, *rest]


def _after_the_turn(pieces: Sequence[Piece]) -> list[Piece]:
    """What follows the assistant's turn. BadConfig where the template does not show it."""
    for place, piece in enumerate(pieces):
        if not piece.plain and _PLACE in piece.text:
            return [Piece(piece.text.split(_PLACE, 1)[1], False), *pieces[place + 1 :]]
    raise BadConfig("this chat template does not show an assistant's turn as it was written: it cannot be used here")
