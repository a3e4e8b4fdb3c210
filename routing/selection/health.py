"""What each endpoint did lately, as far as the order of endpoints asks (inference reference 7.6).

An outage is a connection error, timeout or 5xx within the window without a later success; a 429
parks the endpoint until its hint passes. Once the window has passed, one request at a time (the
probe) treats the endpoint as stable; each failed probe doubles the window, up to five minutes.
Nothing is ever excluded by this. Times are monotonic seconds and come from the caller.
"""

from dataclasses import dataclass

WINDOW_MAX_S = 300.0


@dataclass(slots=True)
class _Record:
    unstable_until: float = 0.0
    window_s: float = 0.0
    parked_until: float = 0.0
    probe_until: float = 0.0


class EndpointHealth:
    """Keyed by whatever names an endpoint; an endpoint without a record is well."""

    def __init__(self, *, window_s: float, probe_s: float) -> None:
        self._window_s = window_s
        self._probe_s = probe_s
        self._records: dict[int, _Record] = {}

    def stable(self, endpoint: int, now: float) -> bool:
        """Whether the endpoint counts as stable; after an outage this hands out the probe."""
        record = self._records.get(endpoint)
        if record is None:
            return True
        if now < record.parked_until or now < record.unstable_until:
            return False
        if not record.window_s:
            return True
        if now < record.probe_until:
            return False
        record.probe_until = now + self._probe_s
        return True

    def succeeded(self, endpoint: int) -> None:
        self._records.pop(endpoint, None)

    def failed(self, endpoint: int, now: float) -> None:
        """An outage; doubles the window when it is a failed probe."""
        record = self._records.setdefault(endpoint, _Record())
        was_probe = record.window_s > 0 and now >= record.unstable_until
        grown = record.window_s * 2 if was_probe else max(record.window_s, self._window_s)
        record.window_s = min(grown, WINDOW_MAX_S)
        record.unstable_until = now + record.window_s
        record.probe_until = 0.0

    def parked(self, endpoint: int, now: float, *, hint_s: float) -> None:
        """A 429: no outage, but last in line until the hint passes."""
        record = self._records.setdefault(endpoint, _Record())
        record.parked_until = now + hint_s
