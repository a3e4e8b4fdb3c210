"""What is lost rather than late, in any process."""

from typing import Final

from gateway.metrics.families import Counter
from gateway.tracing.process import call_on_loss

SPANS_LOST: Final = Counter(
    "gateway_spans_lost_total",
    "Spans that the collector of traces did not get: it was gone or slow, or the process ended.",
)


def register() -> None:
    call_on_loss(SPANS_LOST.add)
