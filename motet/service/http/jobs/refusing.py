"""Refuse, in its turn, what exceeds a quota for good: the client hears of it through its promise."""

from __future__ import annotations

from typing import Any

from motet.service.http.accepted import Accepted, Kind, Outcome
from motet.service.http.quotas import OverQuota


async def refuse(worker: Any, accepted: Accepted) -> Outcome:
    """The message is what to say."""
    raise OverQuota(accepted.message)


KINDS = (Kind("over_quota", bytes.decode, refuse),)
(OVER_QUOTA,) = KINDS
