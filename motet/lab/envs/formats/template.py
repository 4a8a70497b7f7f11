"""Tool calls in the form the tokenizer's own chat template teaches, for models that were trained on it.

The tools are handed to the template as JSON schemas. A call is read as a JSON object with `name` and
`arguments` (or `parameters`), in `<tool_call>` tags or bare. What is inserted after a turn is whatever the
template puts between an assistant's message and the next one when a tool's message stands between them.
"""

from __future__ import annotations

from collections.abc import Sequence

from transformers import PreTrainedTokenizerBase

from motet.chat.calls import read_calls
from motet.chat.template import Chat, Message, encode
from motet.errors import BadConfig
from motet.lab.envs.calculator import evaluate, show_number
from motet.lab.envs.formats.base import Call
from motet.lab.envs.problems import Problem

INSTRUCTIONS = "Solve the problem step by step. Compute with Calculator. Give the result with FinalAnswer."
_SEEN = "41"
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
        self._chat = Chat(tokenizer)
        if not self._chat.takes_tools(TOOLS):
            raise BadConfig('this model\'s chat template takes no tools; set environment.format = "plain"')
        if encode(tokenizer, _SEEN)[-1] not in self._chat.between([_result(_SEEN)], "", TOOLS):
            raise BadConfig('this chat template shows no tool results; set environment.format = "plain"')

    def prompt(self, question: str, examples: Sequence[Problem]) -> list[int]:
        messages: list[Message] = [{"role": "system", "content": INSTRUCTIONS}]
        for one in examples:
            messages += _worked(one)
        return self._chat.prompt([*messages, _user(question)], TOOLS)

    def read_call(self, text: str) -> Call | None:
        for call in read_calls(text):
            if len(call.arguments) == 1:
                return Call(call.name, str(next(iter(call.arguments.values()))))
        return None

    def result(self, written: str, value: str) -> list[int]:
        return self._chat.between([_result(value)], written, TOOLS)


def _user(question: str) -> Message:
    return {"role": "user", "content": question}


def _result(value: str) -> Message:
    return {"role": "tool", "name": "Calculator", "content": value, "tool_call_id": _CALL_ID}


def _worked(problem: Problem) -> list[Message]:
    """A worked example as messages: every step a call and its result, then FinalAnswer."""
    messages: list[Message] = [_user(problem.question)]
    for step in problem.steps:
        messages.append(_calling("Calculator", "expression", step))
        value = show_number(evaluate(step))
        messages.append(_result(value))
    messages.append(_calling("FinalAnswer", "answer", show_number(problem.answer)))
    return messages


def _calling(name: str, argument: str, value: str) -> Message:
    call = {"id": _CALL_ID, "type": "function", "function": {"name": name, "arguments": {argument: value}}}
    return {"role": "assistant", "content": "", "tool_calls": [call]}
