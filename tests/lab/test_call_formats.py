"""The two call formats: what is read out of a turn, and what is put after it."""

from __future__ import annotations

from fractions import Fraction

import pytest
from transformers import PreTrainedTokenizerFast

from motet.chat.template import Chat
from motet.errors import BadConfig
from motet.lab.envs.formats.base import Call
from motet.lab.envs.formats.plain import PlainFormat, solution
from motet.lab.envs.formats.template import TOOLS, TemplateFormat
from motet.lab.envs.problems import Problem

PROBLEM = Problem("Ann has 23 apples. Ann buys 18 more. How many now?", Fraction(41), ("23+18",))


def test_plain_text_prompt(bare: PreTrainedTokenizerFast) -> None:
    form = PlainFormat(bare)
    worked = f"{PROBLEM.question}\nCalculator[23+18]\nResult: 41\nFinalAnswer[41]\n\n"
    assert bare.decode(form.prompt("How many?", [PROBLEM])) == f"{worked}How many?\n"
    assert bare.decode(form.prompt("How many?", [])) == "How many?\n"


def test_plain_chat_prompt(chatty: PreTrainedTokenizerFast) -> None:
    text = chatty.decode(PlainFormat(chatty).prompt("How many?", [PROBLEM]))
    assert "assistant\nCalculator[23+18]\nResult: 41\nFinalAnswer[41]<|im_end|>" in text
    assert text.endswith("<|im_start|>user\nHow many?<|im_end|>\n<|im_start|>assistant\n")


@pytest.mark.parametrize(
    ("text", "call"),
    [
        ("Calculator[23+18]", Call("Calculator", "23+18")),
        ("So Calculator[ 23+18 ].\n", Call("Calculator", " 23+18 ")),
        ("FinalAnswer[41]\n", Call("FinalAnswer", "41")),
        ("FinalAnswer[41", None),
        ("FinalAnswer(41)", None),
        ("LastAnswer[41]", None),
        ("", None),
    ],
)
def test_plain_calls(bare: PreTrainedTokenizerFast, text: str, call: Call | None) -> None:
    assert PlainFormat(bare).read_call(text) == call


def test_plain_result_starts_on_a_line_of_its_own(bare: PreTrainedTokenizerFast) -> None:
    form = PlainFormat(bare)
    assert bare.decode(form.result("Calculator[1+1]", "2")) == "\nResult: 2\n"
    assert bare.decode(form.result("Calculator[1+1]\n", "2")) == "Result: 2\n"


def test_solution_is_cut_where_the_environment_cuts() -> None:
    assert [(piece.text, piece.written) for piece in solution(PROBLEM)] == [
        ("Calculator[23+18]", True),
        ("\nResult: 41\n", False),
        ("FinalAnswer[41]", True),
    ]


def test_template_prompt_shows_tools_and_examples(chatty: PreTrainedTokenizerFast) -> None:
    text = chatty.decode(TemplateFormat(chatty).prompt("How many?", [PROBLEM]))
    assert '"name": "Calculator"' in text and '"name": "FinalAnswer"' in text
    assert '{"name": "Calculator", "arguments": {"expression": "23+18"}}' in text
    assert text.endswith("user\nHow many?<|im_end|>\n<|im_start|>assistant\n")


@pytest.mark.parametrize("ended", ["", "<|im_end|>"])
def test_template_round_trip(chatty: PreTrainedTokenizerFast, ended: str) -> None:
    """Turn and inserted result together are what the template itself writes for that conversation."""
    form = TemplateFormat(chatty)
    written = '<tool_call>\n{"name": "Calculator", "arguments": {"expression": "1+1"}}\n</tool_call>' + ended
    prompt = chatty.decode(form.prompt("How many?", []))
    inserted = chatty.decode(form.result(written, "2"))
    call = {"type": "function", "function": {"name": "Calculator", "arguments": {"expression": "1+1"}}}
    whole = Chat(chatty).render(
        [
            {
                "role": "system",
                "content": "Solve the problem step by step. Compute with Calculator. Give the result with FinalAnswer.",
            },
            {"role": "user", "content": "How many?"},
            {"role": "assistant", "content": "", "tool_calls": [call]},
            {"role": "tool", "content": "2"},
        ],
        TOOLS,
    )
    assert prompt + written + inserted == whole


@pytest.mark.parametrize(
    ("text", "call"),
    [
        ('{"name": "Calculator", "arguments": {"expression": "1+1"}}', Call("Calculator", "1+1")),
        (
            'think {x} <tool_call>{"name": "FinalAnswer", "parameters": {"answer": 41}}',
            Call("FinalAnswer", "41"),
        ),
        ('{"name": "Calculator", "arguments": "1+1"}', None),
        ('{"name": "Calculator"', None),
        ("nothing", None),
    ],
)
def test_template_calls(chatty: PreTrainedTokenizerFast, text: str, call: Call | None) -> None:
    assert TemplateFormat(chatty).read_call(text) == call


def test_a_template_without_tools_is_refused(bare: PreTrainedTokenizerFast) -> None:
    with pytest.raises(BadConfig, match="plain"):
        TemplateFormat(bare)
