"""What `/metrics` shows, in Prometheus' text format."""

from collections.abc import Callable, Mapping

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
    generate_latest,
)

TEXT = "text/plain; version=0.0.4; charset=utf-8"
_SECONDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30)
_COUNTS = (1, 2, 5, 10, 20, 50, 100, 200, 500)


class ServiceMetrics:
    """Counts of one server."""

    def __init__(self) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self._registry = CollectorRegistry()
        ProcessCollector(registry=self._registry)
        self._requests = Counter(
            "tpnet_requests", "Requests answered.", ("path", "status"), registry=self._registry
        )
        self._seconds = Histogram(
            "tpnet_request_seconds",
            "From a request's first byte to its answer.",
            ("path",),
            buckets=_SECONDS,
            registry=self._registry,
        )
        self._together = Histogram(
            "tpnet_links_together", "Links scored in one batch.", buckets=_COUNTS, registry=self._registry
        )
        self._calls = Histogram(
            "tpnet_commit_requests", "Requests in one commit.", buckets=_COUNTS, registry=self._registry
        )
        self._sync = Histogram(
            "tpnet_commit_seconds", "Writing and syncing.", buckets=_SECONDS, registry=self._registry
        )

    def show(self, gauges: Mapping[str, tuple[str, Callable[[], float]]]) -> None:
        """Show these too, by name, with what they mean and how to find out."""
        for name, (meaning, find) in gauges.items():
            Gauge(name, meaning, registry=self._registry).set_function(find)

    def answered(self, path: str, status: int, seconds: float) -> None:
        self._requests.labels(path, str(status)).inc()
        self._seconds.labels(path).observe(seconds)

    def scored_together(self, links: int) -> None:
        self._together.observe(links)

    def committed(self, calls: int, seconds: float) -> None:
        self._calls.observe(calls)
        self._sync.observe(seconds)

    def text(self) -> bytes:
        return generate_latest(self._registry)
