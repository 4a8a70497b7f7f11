"""The Calculator: exact arithmetic over a syntax tree. Nothing is ever executed."""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable
from fractions import Fraction

from motet.errors import UserError

MAX_LENGTH = 100  # characters of an expression
MAX_VALUE = 10**12  # of every number and every intermediate result
_ALLOWED = re.compile(r"[0-9.+\-*/() ]+")  # no letters: no names, no calls, no exponents, no hexadecimals
_NUMBER = re.compile(r"-?(\d+(\.\d+)?|\.\d+)", re.ASCII)
_OPERATORS: dict[type[ast.operator], Callable[[Fraction, Fraction], Fraction]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}


class BadExpression(UserError):
    """Not an expression of numbers, + - * / and parentheses, or too large a one."""


def evaluate(expression: str) -> Fraction:
    """The exact value of an expression such as `(23+18)*2.5`. Raises BadExpression."""
    text = expression.strip()
    if len(text) > MAX_LENGTH:
        raise BadExpression(f"longer than {MAX_LENGTH} characters")
    if not _ALLOWED.fullmatch(text):
        raise BadExpression("only numbers, + - * / and parentheses are allowed")
    try:
        tree = ast.parse(text, mode="eval")
    except SyntaxError:
        raise BadExpression("not an arithmetic expression") from None
    return _value(tree.body, text)


def _value(node: ast.expr, text: str) -> Fraction:
    """The value of one node of the tree of `text`."""
    match node:
        case ast.Constant(value=int() | float()):
            value = Fraction(ast.get_source_segment(text, node) or "")  # exact: 0.1 is one tenth
        case ast.UnaryOp(op=ast.USub()):
            value = -_value(node.operand, text)
        case ast.UnaryOp(op=ast.UAdd()):
            value = _value(node.operand, text)
        case ast.BinOp() if type(node.op) in _OPERATORS:
            left, right = _value(node.left, text), _value(node.right, text)
            if isinstance(node.op, ast.Div) and right == 0:
                raise BadExpression("division by zero")
            value = _OPERATORS[type(node.op)](left, right)
        case _:
            raise BadExpression("only numbers, + - * / and parentheses are allowed")
    if abs(value) > MAX_VALUE:
        raise BadExpression(f"larger than {MAX_VALUE}")
    return value


def read_number(text: str) -> Fraction | None:
    """A plain number such as `41`, `-2.50` or `$1,000`; None for anything else, expressions too."""
    cleaned = text.strip().removeprefix("$").replace(",", "")
    return Fraction(cleaned) if len(cleaned) <= MAX_LENGTH and _NUMBER.fullmatch(cleaned) else None


def show_number(value: Fraction) -> str:
    """`41` for whole numbers, else at most six decimals: `2.5`, `0.333333`."""
    if value.denominator == 1:
        return str(value.numerator)
    return f"{float(value):.6f}".rstrip("0").rstrip(".")
