"""What clients say of answers, and what they claim for a training."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, model_validator

from motet.service.wire.openai import LONGEST_WORD, Message, ToolCall

Text = Annotated[str, Field(max_length=1_000_000)]
Word = Annotated[str, Field(min_length=1, max_length=LONGEST_WORD)]
Score = Annotated[FiniteFloat, Field(ge=-1000, le=1000)]
Number = Annotated[int, Field(ge=1, lt=2**63)]
MOST_ITEMS = 10_000  # of one training
Items = Annotated[list[Number], Field(max_length=MOST_ITEMS)]
SAID = ("score", "thumbs", "preferred", "correction", "event", "outcome")


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Preferred(_Body):
    """A better answer: a text, another choice of the same answer, or a choice of another one."""

    text: Text | None = None
    choice: int | None = Field(default=None, ge=0)
    response_id: Word | None = None

    @model_validator(mode="after")
    def _one(self) -> Preferred:
        """ValueError where it is none or several."""
        if (self.text is None) == (self.choice is None and self.response_id is None):
            raise ValueError("give a text, or a choice, or a response_id")
        return self


class Correction(_Body):
    """The answer as it should be, where it calls tools."""

    content: Text | None = None
    tool_calls: list[ToolCall] = Field(min_length=1)


class Outcome(_Body):
    """How it ended, known later."""

    score: Score
    about: Text = ""


class Past(_Body):
    """A conversation of elsewhere; its last message is the answer."""

    model: Word
    messages: list[Message] = Field(min_length=2)
    tools: list[dict[str, Any]] = []
    user: Word | None = None
    conversation: Word | None = None

    @model_validator(mode="after")
    def _answered(self) -> Past:
        """ValueError where nobody answers."""
        if self.messages[-1].role != "assistant":
            raise ValueError("the last message must be the assistant's")
        return self


class Feedback(_Body):
    """`POST /v1/feedback`."""

    id: Word | None = None
    response_id: Word | None = None
    past: Past | None = None
    choice: int = Field(default=0, ge=0)
    source: Word | None = None
    score: Score | None = None
    thumbs: Literal["up", "down"] | None = None
    preferred: Preferred | None = None
    correction: Text | Correction | None = None
    event: Literal["accepted", "retried", "escalated"] | None = None
    outcome: Outcome | None = None
    comment: Text = ""
    metadata: dict[str, Any] = {}

    @model_validator(mode="after")
    def _says_something(self) -> Feedback:
        """ValueError where it is of no answer, or says nothing of it."""
        if (self.response_id is None) == (self.past is None):
            raise ValueError("name the answer by its response_id, or bring a past conversation")
        if self.past is not None and (self.choice or (self.preferred is not None and self.preferred.text is None)):
            raise ValueError("a past conversation has one choice: prefer a text")
        if all(getattr(self, name) is None for name in SAID):
            raise ValueError(f"say something: {', '.join(SAID)}")
        return self

    @property
    def said(self) -> dict[str, Any]:
        """What it says, as it is kept."""
        whole = self.model_dump(mode="json", exclude_none=True, include={*SAID, "comment", "metadata"})
        return {key: value for key, value in whole.items() if value not in ("", {})}


class Quarantine(_Body):
    """`POST /motet/v1/feedback/quarantine`: reason null lets them out."""

    items: list[Number] = Field(min_length=1, max_length=MOST_ITEMS)
    reason: Annotated[str, Field(min_length=1, max_length=2000)] | None


class Claim(_Body):
    """`POST /motet/v1/trainings`."""

    key: Word
    name: Word
    parent: Word | None = None
    items: Items = []
    replayed: Items = []
    held_out: Items = []
    recipe: dict[str, Any] = {}


class Close(_Body):
    """How a training ended: with a checkpoint, or (null) given up."""

    path: Word | None
    reason: str = Field(default="", max_length=2000)


class Recording(_Body):
    """A tenant's choice of its records."""

    store: bool = True
    keep_days: Annotated[FiniteFloat, Field(gt=0)] | None = None
