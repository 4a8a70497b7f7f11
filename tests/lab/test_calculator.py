"""The calculator: right, exact, bounded, and deaf to everything that is not arithmetic."""

from __future__ import annotations

from contextlib import suppress
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from motet.lab.envs.calculator import BadExpression, evaluate, read_number, show_number

NUMBERS = st.integers(0, 999).map(str) | st.decimals(0, 99, places=2).map(str)
EXPRESSIONS = st.recursive(
    NUMBERS,
    lambda inner: st.tuples(inner, st.sampled_from("+-*"), inner).map(lambda t: f"({t[0]}{t[1]}{t[2]})"),
    max_leaves=6,
)


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("23+18", 41),
        (" 7 * ( 2 - 5 ) ", -21),
        ("0.1+0.2", Fraction(3, 10)),
        ("1/3*3", 1),
        ("-(-4)", 4),
        ("+3", 3),
        (".5*8", 4),
        ("2*3+4*5", 26),
    ],
)
def test_values(expression: str, value: Fraction) -> None:
    assert evaluate(expression) == value


@given(EXPRESSIONS)
def test_agrees_with_exact_arithmetic(expression: str) -> None:
    exact = eval(  # noqa: S307  (the oracle: Python's own arithmetic over fractions)
        "".join(f"Fraction('{t}')" if t[0].isdigit() else t for t in _pieces(expression)),
        {"Fraction": Fraction},
    )
    if len(expression) <= 100 and abs(exact) < 10**6:
        assert evaluate(expression) == exact


def _pieces(expression: str) -> list[str]:
    for sign in "+-*()":
        expression = expression.replace(sign, f" {sign} ")
    return expression.split()


@pytest.mark.parametrize(
    "hostile",
    [
        "",
        "__import__('os').system('true')",
        "9**9**9",
        "9//2",
        "2<3",
        "1,2",
        "(1)(2)",
        "1e9",
        "0x10",
        "1_000",
        "x",
        "99999999999999",
        "999999*999999*999999",
        "1/0",
        "1/(2-2)",
        "(" * 60 + "1" + ")" * 40,
        "+".join("1" * 80),
        "٣+٤",
        "05+1",
        "5 5",
        "1\n+1",
        "()",
        "...",
    ],
)
def test_hostile_input_is_refused(hostile: str) -> None:
    with pytest.raises(BadExpression):
        evaluate(hostile)


@given(st.text(max_size=120))
def test_any_text_is_a_number_or_a_refusal(text: str) -> None:
    with suppress(BadExpression):
        assert abs(evaluate(text)) <= 10**12


@given(st.text(alphabet="0123456789.+-*/() ", max_size=100))
def test_any_arithmetic_text_is_a_number_or_a_refusal(text: str) -> None:
    with suppress(BadExpression):
        assert abs(evaluate(text)) <= 10**12


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("41", 41),
        (" 41 ", 41),
        ("41.0", 41),
        ("-2.50", Fraction(-5, 2)),
        ("$1,000", 1000),
        (".5", Fraction(1, 2)),
        ("23+18", None),
        ("forty", None),
        ("", None),
        ("4 1", None),
        ("1e3", None),
        ("1/2", None),
        ("nan", None),
        ("٣", None),
    ],
)
def test_read_number(text: str, value: Fraction | None) -> None:
    assert read_number(text) == value


def test_show_number() -> None:
    values = [Fraction(41), Fraction(5, 2), Fraction(1, 3), Fraction(-7, 4)]
    assert [show_number(value) for value in values] == ["41", "2.5", "0.333333", "-1.75"]
