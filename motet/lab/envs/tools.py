"""Tools are typed Python functions: name, parameters and meaning come from the function itself.

    def find_order(order_id: str) -> str:
        \"\"\"Find an order by its number.\"\"\"

A method of an object is a tool with state. What a policy passes is checked against the types; a tool's own mistakes,
and wrong arguments, are told to the policy as text, never raised.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, cast, get_type_hints

from pydantic import BaseModel, ConfigDict, ValidationError, create_model

from motet.chat.calls import ToolCall
from motet.chat.template import Message
from motet.errors import BadConfig, UserError


class ToolError(UserError):
    """What a tool could not do, in words for the policy."""


@dataclass(frozen=True)
class Tool:
    """A function that a policy may call, and what the policy is told of it."""

    name: str
    arguments: type[BaseModel]
    schema: Message  # as chat templates take it

    def fitted(self, given: dict[str, Any]) -> dict[str, Any]:
        """Arguments as JSON: some call formats know only text, so a text in the place of something else is read."""
        known = self.schema["function"]["parameters"].get("properties", {})
        return {name: _read(value, known.get(name, {})) for name, value in given.items()}


@lru_cache(maxsize=1024)
def describe(function: Callable[..., object], method: bool = False) -> Tool:
    """Found out once a function, however many episodes use it. BadConfig: a parameter without a type."""
    name = getattr(function, "__name__", "")
    hints, fields = get_type_hints(function), dict[str, Any]()
    for parameter in list(inspect.signature(function).parameters.values())[int(method) :]:
        if parameter.name not in hints or parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            raise BadConfig(f"the tool {name} needs a type at its parameter {parameter.name}")
        default = ... if parameter.default is parameter.empty else parameter.default
        fields[parameter.name] = (hints[parameter.name], default)
    arguments = cast(type[BaseModel], create_model(name, __config__=ConfigDict(extra="forbid"), **fields))
    meaning = {"name": name, "description": inspect.getdoc(function) or "", "parameters": _parameters(arguments)}
    return Tool(name, arguments, {"type": "function", "function": meaning})


def _read(value: Any, schema: dict[str, Any]) -> Any:
    types = {one["type"] for one in (schema, *schema.get("anyOf", ())) if "type" in one}
    if not isinstance(value, str) or not types or "string" in types:
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return value


def _parameters(arguments: type[BaseModel]) -> Message:
    """Their JSON schema, without titles that say nothing."""
    schema = arguments.model_json_schema()
    schema.pop("title", None)
    for one in schema.get("properties", {}).values():
        one.pop("title", None)
    return schema


@dataclass(frozen=True)
class Bound:
    """A tool and the function, or the method of an object, that does it."""

    tool: Tool
    function: Callable[..., object]

    @classmethod
    def to(cls, function: Callable[..., object]) -> Bound:
        if inspect.ismethod(function):
            return cls(describe(function.__func__, method=True), function)
        return cls(describe(function), function)


class Toolbox:
    """The tools of an episode."""

    def __init__(self, functions: Sequence[Callable[..., object]]) -> None:
        self._tools = {bound.tool.name: bound for bound in map(Bound.to, functions)}
        self.schemas: list[Message] = [bound.tool.schema for bound in self._tools.values()]

    async def use(self, call: ToolCall) -> str:
        """What the policy reads back."""
        bound = self._tools.get(call.name)
        if bound is None:
            return f"error: there is no tool {call.name[:60]!r}; there are {', '.join(self._tools)}"
        try:
            given = bound.tool.arguments.model_validate(bound.tool.fitted(call.arguments))
            result = bound.function(**{name: getattr(given, name) for name in type(given).model_fields})
            if inspect.isawaitable(result):
                result = await cast(Awaitable[object], result)
        except ValidationError as error:
            return f"error: {_told(error)}"
        except ToolError as error:
            return f"error: {error}"
        return result if isinstance(result, str) else json.dumps(result, ensure_ascii=False, default=str)


def _told(error: ValidationError) -> str:
    """Wrong arguments in a line."""
    return "; ".join(f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors()[:5])
