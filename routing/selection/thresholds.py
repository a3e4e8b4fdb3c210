"""Preferred latency and throughput (inference reference 7.6 rule 5): who meets them comes first."""

from collections.abc import Mapping, Sequence

from routing.entities.entries import EndpointEntry
from routing.selection.ask import Figures, Policy


def meeting_first(
    endpoints: Sequence[EndpointEntry], policy: Policy, figures: Mapping[int, Figures]
) -> list[EndpointEntry]:
    """The endpoints that meet every cutoff before the others, else in the order they came in.

    What is not known of an endpoint counts as met.
    """
    if not figures:
        return list(endpoints)
    # False sorts before True, and a sort keeps the order of equals.
    return sorted(endpoints, key=lambda each: not _meets(figures.get(each.pk), policy))


def _meets(figures: Figures | None, policy: Policy) -> bool:
    if figures is None:
        return True
    latency, throughput = figures.latency_s, figures.throughput_tps
    slow = latency is not None and any(
        getattr(latency, percentile) > cutoff_s
        for percentile, cutoff_s in policy.max_latency_s.items()
    )
    weak = throughput is not None and any(
        getattr(throughput, percentile) < cutoff_tps
        for percentile, cutoff_tps in policy.min_throughput_tps.items()
    )
    return not (slow or weak)
