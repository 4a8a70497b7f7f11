"""The section [simulation]: who is played, and what happens to the loop on the way."""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field


class Simulation(BaseModel):
    """With it, `motet loop` plays the people beside the loop, for so many rounds, and then ends."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)
    people: Path = Field(strict=False)  # a Python file: motet/lab/loop/simulated/people.py says what it defines
    rounds: int = Field(default=5, ge=1)
    questions: int = Field(default=32, ge=1)  # of a round
    measured: int = Field(default=40, ge=1)  # questions that acceptance is measured by, always the same
    users: int = Field(default=24, ge=1)
    max_tokens: int = Field(default=32, ge=1)
    temperature: float = Field(default=0.3, ge=0)  # of the answers that people judge; measured is at 0
    careless: float = Field(default=0.0, ge=0, le=1)  # of the customers: who judge without looking, the wrong way round
    poisoned: int = Field(default=0, ge=0)  # the round whose feedback is poisoned; 0: none
    overruled: bool = False  # the candidate of that round is let out by hand, whatever the gate says
