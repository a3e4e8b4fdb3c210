"""What each endpoint did lately, as far as the order of endpoints asks (inference reference 7.6).

An outage is a connection error, timeout or 5xx within the window without a later success; a 429
parks the endpoint until its hint passes. Once the window has passed, one request at a time (the
probe) treats the endpoint as stable; each failed probe doubles the window, up to five minutes.
Nothing is ever excluded by this. Times are monotonic seconds and come from the caller.
"""

import math
from dataclasses import dataclass

from routing.selection.ask import ALL_WELL, Standing

WINDOW_MAX_S = 300.0


@dataclass(slots=True)
class _Record:
    unstable_until: float = 0.0
    window_s: float = 0.0
    parked_until: float = 0.0
    probe_until: float = 0.0

    def ends(self) -> tuple[float, float, float]:
        """The moments at which the record says something else than before."""
        return self.unstable_until, self.parked_until, self.probe_until


class EndpointHealth:
    """Keyed by whatever names an endpoint; an endpoint without a record is well."""

    def __init__(self, *, window_s: float, probe_s: float) -> None:
        self._window_s = window_s
        self._probe_s = probe_s
        self._records: dict[int, _Record] = {}
        # What `standing` said last, and until when nothing but news can make it wrong.
        self._standing = ALL_WELL
        self._holds_until = math.inf

    def standing(self, now: float) -> Standing:
        """The endpoints that are not as good as the others now. Worked out when something changed:
        most requests find what the one before them found."""
        if now >= self._holds_until:
            self._forget_the_unparked(now)
            ends = [end for each in self._records.values() for end in each.ends() if end > now]
            self._holds_until = min(ends, default=math.inf)
            self._standing = _standing(self._records, now) if self._records else ALL_WELL
        return self._standing

    def probing(self, endpoint: int, now: float, *, lasts_s: float | None = None) -> None:
        """A request has begun to try the half-open endpoint: no other does until that has ended, or
        has taken too long, which is `lasts_s` where somebody else sent it. Of one that has
        recovered meanwhile there is nothing to find out."""
        record = self._records.get(endpoint)
        if record is not None and record.window_s:
            record.probe_until = now + (self._probe_s if lasts_s is None else lasts_s)
            self._changed()

    def succeeded(self, endpoint: int) -> None:
        """The outage is over. A 429 is not: whoever answered may have been asked before it."""
        record = self._records.get(endpoint)
        if record is not None:
            record.unstable_until = record.window_s = record.probe_until = 0.0
            self._changed()

    def not_probed(self, endpoint: int) -> None:
        """The request that was to probe it never got there: the next one may."""
        record = self._records.get(endpoint)
        if record is not None:
            record.probe_until = 0.0
            self._changed()

    def failed(self, endpoint: int, now: float) -> None:
        """An outage; doubles the window when it is a failed probe."""
        record = self._records.setdefault(endpoint, _Record())
        was_probe = record.window_s > 0 and now >= record.unstable_until
        grown = record.window_s * 2 if was_probe else max(record.window_s, self._window_s)
        record.window_s = min(grown, WINDOW_MAX_S)
        record.unstable_until = now + record.window_s
        record.probe_until = 0.0
        self._changed()

    def parked(self, endpoint: int, now: float, *, hint_s: float) -> None:
        """A 429: no outage, but last in line until the hint passes."""
        record = self._records.setdefault(endpoint, _Record())
        record.parked_until = now + hint_s
        self._changed()

    def _changed(self) -> None:
        self._holds_until = -math.inf

    def _forget_the_unparked(self, now: float) -> None:
        over = [
            key
            for key, record in self._records.items()
            if not record.window_s and now >= record.parked_until
        ]
        for key in over:
            del self._records[key]


def _standing(records: dict[int, _Record], now: float) -> Standing:
    unstable, parked, half_open = set(), set(), set()
    for key, record in records.items():
        if now < record.parked_until:
            parked.add(key)
        if now < record.unstable_until or now < record.probe_until:
            unstable.add(key)
        elif record.window_s and now >= record.parked_until:
            half_open.add(key)
    return Standing(frozenset(unstable), frozenset(parked), frozenset(half_open))
