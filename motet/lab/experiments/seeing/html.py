"""Markup that cannot be wrong: whatever is not markup already is escaped, wherever it is put."""

from __future__ import annotations

from html import escape

from motet.lab.experiments.seeing.text import visible

VOID = frozenset({"meta", "br"})  # elements without an end of their own


class Markup(str):
    """Safe to be put into a page as it is. `tag` and `join` make it from anything; `trusted` from files of our own."""

    __slots__ = ()


EMPTY = Markup()


def trusted(text: str) -> Markup:
    """Text of our own that is markup, such as a style sheet. Never anything that was recorded."""
    return Markup(text)


def join(*children: str) -> Markup:
    """One after another; plain text is escaped."""
    return Markup("".join(one if isinstance(one, Markup) else escape(visible(one)) for one in children))


def tag(name: str, /, *children: str, **attributes: str | float | bool | None) -> Markup:
    """An element. Attributes: `class_` is class, `text_anchor` is text-anchor; None and False are left out."""
    told = []
    for key, value in attributes.items():
        if value is None or value is False:
            continue
        written = key.rstrip("_").replace("_", "-")
        told.append(f" {written}" if value is True else f' {written}="{escape(_value(value))}"')
    begin = f"<{name}{''.join(told)}>"
    return Markup(begin if name in VOID else f"{begin}{join(*children)}</{name}>")


def _value(value: str | float) -> str:
    """Coordinates to a hundredth."""
    return visible(value) if isinstance(value, str) else f"{value:.2f}".rstrip("0").rstrip(".")
