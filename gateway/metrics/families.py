"""What is measured. Each family is declared once, with its meaning and labels, and becomes one of
the library's at its first number. The numbers of one set of labels are kept at hand."""

from bisect import bisect_left
from collections import Counter as Counted
from collections.abc import Sequence
from typing import Any, ClassVar, Final

import prometheus_client

from gateway.metrics.files import is_enabled, use_files

FAMILIES: Final[dict[str, "Family"]] = {}


class Family:
    """`name` is what a scrape has; `text` says what it means; `labels` are the names of labels."""

    kind: ClassVar[str]

    def __init__(self, name: str, text: str, *labels: str) -> None:
        assert name not in FAMILIES, name
        self.name, self.text, self.labels = name, text, labels
        FAMILIES[name] = self


class _Written(Family):
    """One that processes write to."""

    def __init__(self, name: str, text: str, *labels: str) -> None:
        super().__init__(name, text, *labels)
        self._metric: Any = None
        self._children: dict[tuple[str, ...], Any] = {}

    def _get_child(self, values: tuple[str, ...]) -> Any:
        child = self._children.get(values)
        if child is None:
            if self._metric is None:
                use_files()
                self._metric = self._build()
            child = self._metric.labels(*values) if self.labels else self._metric
            self._children[values] = child
        return child

    def _build(self) -> Any:
        raise NotImplementedError


class Counter(_Written):
    kind = "counter"

    def add(self, amount: float, *values: str) -> None:
        """`values` are those of the labels, in their order."""
        if is_enabled():
            self._get_child(values).inc(amount)

    def _build(self) -> Any:
        return prometheus_client.Counter(self.name, self.text, self.labels, registry=None)


class Gauge(_Written):
    """`mode` is how the numbers of processes go together: `livesum` and `livemax` of those that
    live, `mostrecent` also of those that are gone."""

    kind = "gauge"

    def __init__(self, name: str, text: str, *labels: str, mode: str = "livesum") -> None:
        super().__init__(name, text, *labels)
        self._mode = mode

    def set(self, value: float, *values: str) -> None:
        if is_enabled():
            self._get_child(values).set(value)

    def _build(self) -> Any:
        return prometheus_client.Gauge(
            self.name,
            self.text,
            self.labels,
            registry=None,
            multiprocess_mode=self._mode,  # type: ignore[arg-type]  # A literal of the library's own.
        )


class Histogram(_Written):
    """Counts of values up to each of the `buckets`."""

    kind = "histogram"

    def __init__(self, name: str, text: str, *labels: str, buckets: tuple[float, ...]) -> None:
        super().__init__(name, text, *labels)
        self.buckets = buckets

    def observe(self, value: float, *values: str) -> None:
        if is_enabled():
            self._get_child(values).observe(value)

    def observe_all(self, measured: Sequence[float], *values: str) -> None:
        """Observe several at once. Each number of the library lies in a file that processes share
        and costs 2 us to write. So each bucket is written once, however many fell into it."""
        if not is_enabled():
            return
        child = self._get_child(values)
        bounds = child._upper_bounds
        for bucket, count in Counted(bisect_left(bounds, value) for value in measured).items():
            child._buckets[bucket].inc(count)
        child._sum.inc(sum(measured))

    def _build(self) -> Any:
        return prometheus_client.Histogram(
            self.name, self.text, self.labels, registry=None, buckets=self.buckets
        )


class ScrapedGauge(Family):
    """One that is read when somebody asks, by `gateway.metrics.scrape`."""

    kind = "gauge"
