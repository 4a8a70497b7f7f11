"""What whoever runs the server looks at, put together: meters, the engine's last numbers, the drain."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from motet.service.http.draining import Drain
from motet.service.http.metrics import Gauges, Meters
from motet.service.http.reading import EngineReading
from motet.service.http.service import Service


@dataclass(frozen=True)
class Operation:
    """One server's."""

    meters: Meters
    reading: EngineReading
    drain: Drain
    engine_memory_bytes: Callable[[], int]
    began: float = field(default_factory=time.monotonic)

    @classmethod
    def of(cls, service: Service, meters: Meters, engine_memory_bytes: Callable[[], int]) -> Operation:
        """Look at a service from now on."""
        reading = EngineReading(service.engine)
        meters.registry.register(Gauges(service, reading, engine_memory_bytes))
        return cls(meters, reading, Drain(service), engine_memory_bytes)
