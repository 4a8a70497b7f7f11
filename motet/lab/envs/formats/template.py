"""Tool calls in the form the tokenizer's own chat template teaches, for models that were trained on it.

The tools are handed to the template as JSON schemas. A call is read as a JSON object with `name` and
`arguments` (or `parameters`), in `<tool_call>` tags or bare. What is inserted after a turn is whatever the
template puts between an assistant's message and the next one when a tool's message stands between them.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from transformers import PreTrainedTokenizerBase

from motet.errors import BadConfig
from motet.lab.envs.calculator import evaluate, show_number
from motet.lab.envs.formats.base import Call, encode
from motet.lab.envs.problems import Problem

Message = dict[str, Any]
INSTRUCTIONS = "Solve the problem step by step. Compute with Calculator. Give the result with FinalAnswer."
_PLACE = "[the assistant's turn]"
_CALL_ID = "call0"


def _tool(name: str, what: str, argument: str, meaning: str) -> Message:
    properties = {argument: {"type": "string", "description": meaning}}
    schema = {"type": "object", "properties": properties, "required": [argument]}
    return {"type": "function", "function": {"name": name, "description": what, "parameters": schema}}


TOOLS = [
    _tool("Calculator", "Evaluate an arithmetic expression.", "expression", "such as (23+18)*2"),
    _tool("FinalAnswer", "Give the final answer and finish.", "answer", "the number alone"),
]


class TemplateFormat:
    """Needs a tokenizer whose chat template takes tools. Raises BadConfig where it does not."""

    stop: Sequence[str] = ()  # a turn ends with the model's end token

    def __init__(self, tokenizer: PreTrainedTokenizerBase) -> None:
        self._tokenizer = tokenizer
        if tokenizer.chat_template is None or "Calculator" not in self._render([_user("?")]):
            raise BadConfig('this model\'s chat template takes no tools; set environment.format = "plain"')
        self._between, self._end = self._cut_out_the_result()

    def prompt(self, question: str, examples: Sequence[Problem]) -> list[int]:
        messages: list[Message] = [{"role": "system", "content": INSTRUCTIONS}]
        for one in examples:
            messages += _worked(one)
        return encode(self._tokenizer, self._render([*messages, _user(question)]))

    def read_call(self, text: str) -> Call | None:
        decoder = json.JSONDecoder()
        start = text.find("{")
        while start >= 0:
            try:
                found, _ = decoder.raw_decode(text, start)
            except json.JSONDecodeError:
                found = None
            if isinstance(found, dict) and (call := _as_call(found)):
                return call
            start = text.find("{", start + 1)
        return None

    def result(self, written: str, value: str) -> list[int]:
        inserted = self._between.replace(_PLACE, value)
        if written.endswith(self._end):
            inserted = inserted.removeprefix(self._end)
        return encode(self._tokenizer, inserted)

    def _cut_out_the_result(self) -> tuple[str, str]:
        """The text that follows an assistant's turn up to the next one, and the mark that ends the turn."""
        assistant = {"role": "assistant", "content": _PLACE}
        result = {"role": "tool", "name": "Calculator", "content": _PLACE, "tool_call_id": _CALL_ID}
        text = self._render([_user("?"), assistant, result])
        between = text.split(_PLACE, 1)[1]
        end = str(self._tokenizer.eos_token or "")
        if _PLACE not in between:
            raise BadConfig('this chat template shows no tool results; set environment.format = "plain"')
        return between, end if end and between.startswith(end) else ""

    def _render(self, messages: list[Message]) -> str:
        return str(
            self._tokenizer.apply_chat_template(messages, tools=list(TOOLS), tokenize=False, add_generation_prompt=True)
        )


def _user(question: str) -> Message:
    return {"role": "user", "content": question}


def _as_call(found: dict[str, Any]) -> Call | None:
    """A call out of a JSON object, if it has the form of one."""
    name, arguments = found.get("name"), found.get("arguments", found.get("parameters"))
    if not isinstance(name, str) or not isinstance(arguments, dict) or len(arguments) != 1:
        return None
    return Call(name, str(next(iter(arguments.values()))))


def _worked(problem: Problem) -> list[Message]:
    """A worked example as messages: every step a call and its result, then FinalAnswer."""
    messages: list[Message] = [_user(problem.question)]
    for step in problem.steps:
        messages.append(_calling("Calculator", "expression", step))
        value = show_number(evaluate(step))
        messages.append({"role": "tool", "name": "Calculator", "content": value, "tool_call_id": _CALL_ID})
    messages.append(_calling("FinalAnswer", "answer", show_number(problem.answer)))
    return messages


def _calling(name: str, argument: str, value: str) -> Message:
    call = {"id": _CALL_ID, "type": "function", "function": {"name": name, "arguments": {argument: value}}}
    return {"role": "assistant", "content": "", "tool_calls": [call]}
