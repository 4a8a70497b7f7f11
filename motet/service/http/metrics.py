"""What Prometheus reads: counters of the service, and the engine's own numbers as they were last told.

Every number of the engine's Stats is there as `motet_engine_NAME`, but for those of single runs, which are for their
owners alone. docs/operation.md tells them all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from prometheus_client import CollectorRegistry, Counter, Histogram, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from motet.engine.core.requests import ForwardBackward, Publish, Request, Sample
from motet.errors import MotetError
from motet.service.http.logs import Served
from motet.service.http.reading import EngineReading
from motet.service.http.service import Service

HTTP_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
ENGINE_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)
COUNTED = {  # those of the engine's Stats that only grow
    "decoded_tokens",
    "prompt_tokens",
    "publish_seconds",
    "sample_steps",
    "sampling_busy_seconds",
    "serving_seconds",
    "swaps_in",
    "swaps_out",
    "training_busy_seconds",
}


class Meters:
    """The service's counters: of requests over HTTP, and of requests to the engine."""

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()
        ProcessCollector(registry=registry)
        self._http = Histogram(
            "motet_http_request_seconds",
            "Requests by route.",
            labelnames=["method", "route"],
            buckets=HTTP_BUCKETS,
            registry=registry,
        )
        self._answers = Counter(
            "motet_http_requests", "Requests by route and status.", ["method", "route", "status"], registry=registry
        )
        self._errors = Counter("motet_http_errors", "Requests refused at once, by kind.", ["kind"], registry=registry)
        self._engine = Histogram(
            "motet_engine_request_seconds",
            "Requests to the engine, queues included, by kind.",
            labelnames=["request"],
            buckets=ENGINE_BUCKETS,
            registry=registry,
        )
        self._engine_errors = Counter(
            "motet_engine_errors", "Requests that failed in the engine.", ["request", "kind"], registry=registry
        )
        self._first_token = Histogram(
            "motet_first_token_seconds", "Until a stream's first token.", buckets=ENGINE_BUCKETS, registry=registry
        )
        self._answered = Histogram(
            "motet_answer_seconds", "Answers of /v1, whole.", buckets=ENGINE_BUCKETS, registry=registry
        )
        self.trained_tokens = 0
        self._trained = Counter("motet_trained_tokens", "Tokens of forward_backward.", registry=registry)
        self._hits = Counter("motet_prompt_cache_hit_tokens", "Prompt tokens found in the cache.", registry=registry)
        self._publishes = Counter("motet_publishes", "Versions published.", registry=registry)

    def served(self, served: Served) -> None:
        """A request was answered."""
        self._http.labels(served.method, served.route).observe(served.seconds)
        self._answers.labels(served.method, served.route, str(served.status)).inc()

    def refused(self, error: Exception) -> None:
        """A request was answered with an error at once."""
        self._errors.labels(type(error).__name__).inc()

    def answered(self, seconds: float, first_token: float | None) -> None:
        """An answer of /v1 is whole; first_token: when its first token came, of a stream."""
        self._answered.observe(seconds)
        if first_token is not None:
            self._first_token.observe(first_token)

    def engine_done(self, request: Request, result: object, seconds: float) -> None:
        """The engine did what it was asked for."""
        self._engine.labels(type(request).__name__).observe(seconds)
        match request:
            case ForwardBackward(data=data):
                tokens = sum(len(datum.tokens) for datum in data)
                self.trained_tokens += tokens
                self._trained.inc(tokens)
            case Publish():
                self._publishes.inc()
            case Sample():
                self._hits.inc(getattr(result, "prompt_cache_hit_tokens", 0))

    def engine_failed(self, request: Request, error: MotetError) -> None:
        """The engine refused, or was not there."""
        self._engine_errors.labels(type(request).__name__, type(error).__name__).inc()


class Gauges(Collector):
    """What is read at the moment of asking: the engine's last numbers, and what the service holds."""

    def __init__(self, service: Service, reading: EngineReading, engine_memory_bytes: Callable[[], int]) -> None:
        self._service = service
        self._reading = reading
        self._engine_memory_bytes = engine_memory_bytes

    def collect(self) -> Iterator[CounterMetricFamily | GaugeMetricFamily]:
        yield GaugeMetricFamily("motet_engine_up", "1: the engine answers within a second.", float(self._reading.up))
        memory = float(self._engine_memory_bytes())
        yield GaugeMetricFamily("motet_engine_resident_bytes", "Memory of the engine's process.", memory)
        for name, value in self._reading.numbers.whole.items():
            family = CounterMetricFamily if name in COUNTED else GaugeMetricFamily
            yield family(f"motet_engine_{name}", "Of the engine's Stats.", value=value)
        for name, value in service_counts(self._service).items():
            yield GaugeMetricFamily(f"motet_{name}", "Of the service.", value=value)
        failures = CounterMetricFamily("motet_failures", "Promises kept with an error, by its kind.", labels=["kind"])
        for kind, count in self._service.promises.failures.items():
            failures.add_metric([kind], count)
        yield failures
        records = self._service.records
        yield CounterMetricFamily("motet_records_written", "Answers recorded.", records.recorder.written)
        yield CounterMetricFamily("motet_records_dropped", "Answers not recorded.", records.recorder.dropped)
        yield CounterMetricFamily("motet_feedback", "Items of feedback taken in.", records.book.given)
        catalog = self._service.journal.catalog
        yield CounterMetricFamily("motet_catalog_commits", "Commits to the database.", catalog.commits)
        yield CounterMetricFamily("motet_catalog_changes", "Changes in these commits.", catalog.changes)


def service_counts(service: Service) -> dict[str, float]:
    """How much the service holds just now."""
    registry = service.registry
    return {
        **service.promises.sizes(),
        "requests_held_for_order": sum(run.order.held for run in registry.runs.values()),
        "sessions": sum(1 for session in registry.sessions.values() if not session.finished),
        "samplers": len(registry.samplers),
        "checkpoints": len(registry.checkpoints),
        "records_waiting": service.records.recorder.waiting,
        "engine_generation": service.engine.generation,
    }
