"""Traces that destinations do not get."""

from typing import Final, Literal

from gateway.metrics.families import Counter

Reason = Literal["crowd", "database", "broker", "queue_full", "sealed", "receiver"]

LOST_TRACES: Final = Counter(
    "gateway_destination_traces_lost_total",
    "Traces that destinations did not get, by reason: `crowd` where too many came at once, "
    "`database` and `broker` where these were gone, `queue_full` where workers are behind, "
    "`sealed` where the master key is another, `receiver` where three tries failed.",
    "reason",
)
