"""The health of each endpoint, which moves it back in the order but never excludes it.

An outage is a connection error, timeout or 5xx within the window without a later success; a 429
parks the endpoint until its hint passes. Once the window has passed, one request at a time (the
probe) treats the endpoint as stable. Each failed probe doubles the window, up to five minutes. An
endpoint that fails more than half of its last tries within the window is failing as well. Times are
monotonic seconds and come from the caller.
"""

import math
from collections import deque
from dataclasses import dataclass

from routing.selection.types import ALL_HEALTHY, HealthSnapshot

WINDOW_MAX_S = 300.0
# Fewer tries say nothing of an endpoint's share of failures.
TRIES_MIN = 3
# This many of the last count. Under load a window would hold thousands, and each failure takes a
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
    # Until then a failed try counts, and even an answer may be what makes the endpoint failing.
    failure_counts_until: float = 0.0

    def is_over(self, now: float) -> bool:
        """Whether the record has no effect any more."""
        ends = self.parked_until, self.failing_until, self.failure_counts_until
        return not self.window_s and now >= max(ends)

    def ends(self) -> tuple[float, float, float, float]:
        """The moments at which the record's effect changes."""
        return self.unstable_until, self.parked_until, self.probe_until, self.failing_until


class EndpointHealth:
    """Health records by endpoint key; an endpoint without a record is healthy."""

    def __init__(self, *, window_s: float, probe_s: float) -> None:
        self._window_s = window_s
        self._probe_s = probe_s
        self._records: dict[int, _Record] = {}
        # When each endpoint last answered.
        self.answered_at: dict[int, float] = {}
        # When each of an endpoint's last tries ended, and whether it went well.
        self._tries: dict[int, deque[tuple[float, bool]]] = {}
        # The last snapshot, and until when it stays right unless something is recorded.
        self._snapshot = ALL_HEALTHY
        self._valid_until = math.inf

    def snapshot(self, now: float) -> HealthSnapshot:
        """The unhealthy endpoints at `now`. Most requests get the cached snapshot."""
        if now >= self._valid_until:
            for key in [key for key, record in self._records.items() if record.is_over(now)]:
                del self._records[key]
            ends = [end for each in self._records.values() for end in each.ends() if end > now]
            self._valid_until = min(ends, default=math.inf)
            unstable, parked, half_open, failing = set(), set(), set(), set()
            for key, record in self._records.items():
                if now < record.parked_until:
                    parked.add(key)
                if now < record.unstable_until or now < record.probe_until:
                    unstable.add(key)
                elif record.window_s and now >= record.parked_until:
                    half_open.add(key)
                is_ill = key in unstable or key in parked or now < record.failing_until
                if record.is_failing and is_ill:
                    failing.add(key)
            self._snapshot = HealthSnapshot(*map(frozenset, (unstable, parked, half_open, failing)))
        return self._snapshot

    def begin_probe(self, endpoint: int, now: float, *, lasts_s: float | None = None) -> None:
        """Note that a request probes the half-open endpoint; no other request does until it has
        ended or `lasts_s` have passed (by default the probe limit). Does nothing if the endpoint
        has recovered."""
        record = self._records.get(endpoint)
        if record is not None and record.window_s:
            record.probe_until = now + (self._probe_s if lasts_s is None else lasts_s)
            self._invalidate()

    def record_success(self, endpoint: int, now: float) -> None:
        """End the outage. A parked endpoint stays parked: the answered request may be older than
        the 429."""
        self.answered_at[endpoint] = now
        tries = self._record_try(endpoint, now, went_well=True)
        record = self._records.get(endpoint)
        if record is not None:
            record.unstable_until = record.window_s = record.probe_until = 0.0
            self._judge(record, tries, now)

    def abandon_probe(self, endpoint: int) -> None:
        """Allow the next request to probe, because this one did not reach the endpoint."""
        record = self._records.get(endpoint)
        if record is not None:
            record.probe_until = 0.0
            self._invalidate()

    def record_failure(self, endpoint: int, now: float) -> None:
        """Record an outage; a failed probe doubles the window."""
        record = self._records.setdefault(endpoint, _Record())
        if record.is_over(now):
            record.is_failing = False
        was_probe = record.window_s > 0 and now >= record.unstable_until
        window_s = record.window_s * 2 if was_probe else max(record.window_s, self._window_s)
        record.window_s = min(window_s, WINDOW_MAX_S)
        record.unstable_until = now + record.window_s
        record.probe_until = 0.0
        self._judge(record, self._record_try(endpoint, now, went_well=False), now)

    def park(self, endpoint: int, now: float, *, hint_s: float) -> None:
        """Record a 429: no outage, but the endpoint comes last until the hint passes."""
        record = self._records.setdefault(endpoint, _Record())
        record.parked_until = now + hint_s
        self._judge(record, self._record_try(endpoint, now, went_well=False), now)

    def record_useless_answer(self, endpoint: int, now: float) -> None:
        """Record an answer that was of no use, which counts as a failed try but as no outage."""
        record = self._records.setdefault(endpoint, _Record())
        self._judge(record, self._record_try(endpoint, now, went_well=False), now)

    def _record_try(
        self, endpoint: int, at: float, *, went_well: bool
    ) -> deque[tuple[float, bool]]:
        tries = self._tries.get(endpoint)
        if tries is None:
            tries = self._tries[endpoint] = deque(maxlen=TRIES_MAX)
        tries.append((at, went_well))
        return tries

    def _judge(self, record: _Record, tries: deque[tuple[float, bool]], now: float) -> None:
        """Decide whether the endpoint is failing. During an outage too few tries change nothing,
        because probes come one by one."""
        if not tries[-1][1]:
            record.failure_counts_until = now + self._window_s
        # The sum as above: a difference may be rounded the other way.
        recent = [well for at, well in tries if now < at + self._window_s]
        if len(recent) >= TRIES_MIN:
            record.is_failing = 2 * sum(recent) < len(recent)
        elif not record.window_s:
            record.is_failing = False
        record.failing_until = now + self._window_s if record.is_failing else 0.0
        self._invalidate()

    def _invalidate(self) -> None:
        self._valid_until = -math.inf
