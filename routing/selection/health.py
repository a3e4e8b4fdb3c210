"""What each endpoint did lately, as far as the order of endpoints asks (inference reference 7.6).

An outage is a connection error, timeout or 5xx within the window without a later success; a 429
parks the endpoint until its hint passes. Once the window has passed, one request at a time (the
probe) treats the endpoint as stable; each failed probe doubles the window, up to five minutes.
Whoever fails more than half of its last tries within the window is failing as well (7.7).
Nothing is ever excluded by this. Times are monotonic seconds and come from the caller.
"""

import math
from collections import deque
from dataclasses import dataclass

from routing.selection.ask import ALL_WELL, Standing

WINDOW_MAX_S = 300.0
# Fewer tries say nothing of an endpoint's share of failures.
TRIES_MIN = 3
# So many of the last count: under load a window would hold thousands, and each failure takes a
# retry from the budget of all until half of them have failed.
TRIES_MAX = 20


@dataclass(slots=True)
class _Record:
    unstable_until: float = 0.0
    window_s: float = 0.0
    parked_until: float = 0.0
    probe_until: float = 0.0
    is_failing: bool = False
    failing_until: float = 0.0

    def is_over(self, now: float) -> bool:
        """Whether it says nothing any more, however long it is still kept."""
        return not self.window_s and now >= max(self.parked_until, self.failing_until)

    def ends(self) -> tuple[float, float, float, float]:
        """The moments at which the record says something else than before."""
        return self.unstable_until, self.parked_until, self.probe_until, self.failing_until


class EndpointHealth:
    """Keyed by whatever names an endpoint; an endpoint without a record is well."""

    def __init__(self, *, window_s: float, probe_s: float) -> None:
        self._window_s = window_s
        self._probe_s = probe_s
        self._records: dict[int, _Record] = {}
        # When each of an endpoint's last tries ended, and whether it went well.
        self._tries: dict[int, deque[tuple[float, bool]]] = {}
        # What `standing` said last, and until when nothing but news can make it wrong.
        self._standing = ALL_WELL
        self._holds_until = math.inf

    def standing(self, now: float) -> Standing:
        """The endpoints that are not as good as the others now. Worked out when something changed:
        most requests find what the one before them found."""
        if now >= self._holds_until:
            self._forget_the_well(now)
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

    def succeeded(self, endpoint: int, now: float) -> None:
        """The outage is over. A 429 is not: whoever answered may have been asked before it."""
        tries = self._noted(endpoint, now, went_well=True)
        record = self._records.get(endpoint)
        if record is not None:
            record.unstable_until = record.window_s = record.probe_until = 0.0
            self._judge(record, tries, now)

    def not_probed(self, endpoint: int) -> None:
        """The request that was to probe it never got there: the next one may."""
        record = self._records.get(endpoint)
        if record is not None:
            record.probe_until = 0.0
            self._changed()

    def failed(self, endpoint: int, now: float) -> None:
        """An outage; doubles the window when it is a failed probe."""
        record = self._records.setdefault(endpoint, _Record())
        if record.is_over(now):
            record.is_failing = False
        was_probe = record.window_s > 0 and now >= record.unstable_until
        grown = record.window_s * 2 if was_probe else max(record.window_s, self._window_s)
        record.window_s = min(grown, WINDOW_MAX_S)
        record.unstable_until = now + record.window_s
        record.probe_until = 0.0
        self._judge(record, self._noted(endpoint, now, went_well=False), now)

    def parked(self, endpoint: int, now: float, *, hint_s: float) -> None:
        """A 429: no outage, but last in line until the hint passes."""
        record = self._records.setdefault(endpoint, _Record())
        record.parked_until = now + hint_s
        self._judge(record, self._noted(endpoint, now, went_well=False), now)

    def disappointed(self, endpoint: int, now: float) -> None:
        """An answer that was of no use, which is no outage."""
        record = self._records.setdefault(endpoint, _Record())
        self._judge(record, self._noted(endpoint, now, went_well=False), now)

    def _noted(self, endpoint: int, at: float, *, went_well: bool) -> deque[tuple[float, bool]]:
        tries = self._tries.get(endpoint)
        if tries is None:
            tries = self._tries[endpoint] = deque(maxlen=TRIES_MAX)
        tries.append((at, went_well))
        return tries

    def _judge(self, record: _Record, tries: deque[tuple[float, bool]], now: float) -> None:
        """Too few tries leave the judgement of an outage as it is: its probes come one by one."""
        recent = [well for at, well in tries if now - at < self._window_s]
        if len(recent) >= TRIES_MIN:
            record.is_failing = 2 * sum(recent) < len(recent)
        elif not record.window_s:
            record.is_failing = False
        record.failing_until = now + self._window_s if record.is_failing else 0.0
        self._changed()

    def _changed(self) -> None:
        self._holds_until = -math.inf

    def _forget_the_well(self, now: float) -> None:
        for key in [key for key, record in self._records.items() if record.is_over(now)]:
            del self._records[key]


def _standing(records: dict[int, _Record], now: float) -> Standing:
    unstable, parked, half_open, failing = set(), set(), set(), set()
    for key, record in records.items():
        if now < record.parked_until:
            parked.add(key)
        if now < record.unstable_until or now < record.probe_until:
            unstable.add(key)
        elif record.window_s and now >= record.parked_until:
            half_open.add(key)
        is_ill = key in unstable or key in parked or now < record.failing_until
        if record.is_failing and is_ill:
            failing.add(key)
    return Standing(*map(frozenset, (unstable, parked, half_open, failing)))
