"""What OpenAI's clients send to `/v1`: fields that mean something here. What would be silently ignored is refused."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

MOST_CHOICES = 128
MOST_LIKELIEST = 20
LONGEST_WORD = 400  # characters of what an answer is found by


class StreamOptions(BaseModel):
    """What else a stream tells."""

    model_config = ConfigDict(extra="forbid")
    include_usage: bool = False
    include_obfuscation: bool = False


class Drawing(BaseModel):
    """How to draw: what chat and plain completions share."""

    model_config = ConfigDict(extra="forbid")
    model: str
    temperature: float = 1.0
    top_p: float = 1.0
    n: int = Field(default=1, ge=1, le=MOST_CHOICES)
    stop: str | list[str] | None = None
    seed: int | None = Field(default=None, ge=-(2**63), lt=2**63)
    stream: bool = False
    stream_options: StreamOptions | None = None
    user: str | None = Field(default=None, max_length=LONGEST_WORD)
    metadata: dict[str, Any] | None = None
    store: bool | None = None  # False: no record of the answer is kept
    # Taken where they ask for nothing.
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    logit_bias: dict[str, float] | None = None
    service_tier: Literal["auto", "default"] | None = None

    @model_validator(mode="after")
    def _nothing_is_ignored(self) -> Drawing:
        """ValueError where a field would change the draw and cannot."""
        for name in ("presence_penalty", "frequency_penalty", "logit_bias"):
            if getattr(self, name):
                raise ValueError(f"{name} is not known here: leave it out")
        return self

    @property
    def stops(self) -> list[str]:
        return [self.stop] if isinstance(self.stop, str) else self.stop or []


class FunctionCall(BaseModel):
    """A call as an earlier answer told it."""

    name: str
    arguments: str


class ToolCall(BaseModel):
    """One of a message's calls."""

    id: str
    type: Literal["function"] = "function"
    function: FunctionCall


class TextPart(BaseModel):
    """A piece of a message: text alone."""

    model_config = ConfigDict(extra="forbid")
    type: Literal["text"]
    text: str


class Message(BaseModel):
    """One message of a conversation."""

    model_config = ConfigDict(extra="ignore")
    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: str | list[TextPart] | None = None
    name: str | None = None
    tool_calls: list[ToolCall] | None = None
    tool_call_id: str | None = None

    @property
    def text(self) -> str:
        if isinstance(self.content, list):
            return "".join(part.text for part in self.content)
        return self.content or ""


class ChatCompletion(Drawing):
    """`POST /v1/chat/completions`."""

    messages: list[Message] = Field(min_length=1)
    tools: list[dict[str, Any]] = []
    tool_choice: Literal["auto", "none"] | None = None
    parallel_tool_calls: bool | None = None
    max_tokens: int | None = Field(default=None, ge=1)
    max_completion_tokens: int | None = Field(default=None, ge=1)
    logprobs: bool | None = None
    top_logprobs: int | None = Field(default=None, ge=0, le=MOST_LIKELIEST)

    @property
    def characters(self) -> int:
        """How much there is to read."""
        called = (call.function.arguments for one in self.messages for call in one.tool_calls or ())
        return sum(map(len, (*(one.text for one in self.messages), *called, *map(str, self.tools))))

    @property
    def most_tokens(self) -> int | None:
        return self.max_completion_tokens or self.max_tokens

    @property
    def likeliest(self) -> int:
        return self.top_logprobs or 0


class TextCompletion(Drawing):
    """`POST /v1/completions`."""

    prompt: str | list[int]
    max_tokens: int | None = Field(default=16, ge=1)
    logprobs: int | None = Field(default=None, ge=0, le=MOST_LIKELIEST)
    echo: bool = False
    suffix: None = None
    best_of: int | None = None

    @model_validator(mode="after")
    def _one_way(self) -> TextCompletion:
        """ValueError for what is not known here."""
        if self.echo or (self.best_of or 1) != 1:
            raise ValueError("echo and best_of are not known here: leave them out")
        return self

    @property
    def characters(self) -> int:
        """How much there is to read; of tokens none."""
        return len(self.prompt) if isinstance(self.prompt, str) else 0

    @property
    def most_tokens(self) -> int | None:
        return self.max_tokens

    @property
    def likeliest(self) -> int:
        return self.logprobs or 0
