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
from typing import Any, cast, get_type_hints

from pydantic import BaseModel, ConfigDict, ValidationError, create_model

from motet.errors import BadConfig, UserError
from motet.lab.envs.calls import ToolCall
from motet.lab.envs.chat import Message


class ToolError(UserError):
    """What a tool could not do, in words for the policy."""


@dataclass(frozen=True)
class Tool:
    """A function that a policy may call, and what it is told of it."""

    name: str
    meaning: str
    arguments: type[BaseModel]
    function: Callable[..., object]

    @classmethod
    def of(cls, function: Callable[..., object]) -> Tool:
        """A function or bound method, sync or async, with a type at every parameter. BadConfig."""
        name = getattr(function, "__name__", "")
        hints, fields = get_type_hints(function), dict[str, Any]()
        for parameter in inspect.signature(function).parameters.values():
            if parameter.name not in hints or parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
                raise BadConfig(f"the tool {name} needs a type at its parameter {parameter.name}")
            default = ... if parameter.default is parameter.empty else parameter.default
            fields[parameter.name] = (hints[parameter.name], default)
        arguments = create_model(name, __config__=ConfigDict(extra="forbid"), **fields)
        return cls(name, inspect.getdoc(function) or "", cast(type[BaseModel], arguments), function)

    @property
    def schema(self) -> Message:
        """As chat templates take it."""
        parameters = self.arguments.model_json_schema()
        parameters.pop("title", None)
        for one in parameters.get("properties", {}).values():
            one.pop("title", None)
        return {
            "type": "function",
            "function": {"name": self.name, "description": self.meaning, "parameters": parameters},
        }


class Toolbox:
    """The tools of an episode."""

    def __init__(self, functions: Sequence[Callable[..., object]]) -> None:
        self._tools = {tool.name: tool for tool in map(Tool.of, functions)}
        self.schemas: list[Message] = [tool.schema for tool in self._tools.values()]

    async def use(self, call: ToolCall) -> str:
        """What the policy reads back."""
        tool = self._tools.get(call.name)
        if tool is None:
            return f"error: there is no tool {call.name[:60]!r}; there are {', '.join(self._tools)}"
        try:
            given = tool.arguments.model_validate(call.arguments)
            result = tool.function(**{name: getattr(given, name) for name in type(given).model_fields})
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
