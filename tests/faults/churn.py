"""A catalogue that never stands still, and what callers may and must find in it at any moment."""

import hashlib
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Final

from tests.faults import bench

# So soon every process serves what was committed.
LIVE_S: Final = 2.0
NEVER: Final = float("inf")
PAIR, WHOLE = "churn/pair", "churn/whole"
PERSONAS: Final = ("first", "second")


# --- Models that come and go ----------------------------------------------------------------------


@dataclass(frozen=True)
class Span:
    """The life of a model id: its commits happened between `..._from` and `..._by`, monotonic."""

    added_from: float = NEVER
    added_by: float = NEVER
    removed_from: float = NEVER
    removed_by: float = NEVER

    def list_allowed(self, begun_at: float, ended_at: float) -> set[int]:
        """The statuses of a request of that time: 200 where it was there, 400 where it was not."""
        there = self.added_from <= ended_at and begun_at <= self.removed_by + LIVE_S
        gone = begun_at < self.added_by + LIVE_S or self.removed_from <= ended_at
        return {status for status, may in ((200, there), (400, gone)) if may}


class Timeline:
    """When model ids came and went."""

    def __init__(self) -> None:
        self._spans: dict[str, Span] = {}
        self._lock = threading.Lock()

    @contextmanager
    def change(self, *, added: list[str], removed: list[str]) -> Iterator[None]:
        """The block commits that change."""
        began_at = time.monotonic()
        with self._lock:
            for one in added:
                self._spans[one] = Span(added_from=began_at)
            for one in removed:
                self._spans[one] = replace(self._spans[one], removed_from=began_at)
        yield
        done_at = time.monotonic()
        with self._lock:
            for one in added:
                self._spans[one] = replace(self._spans[one], added_by=done_at)
            for one in removed:
                self._spans[one] = replace(self._spans[one], removed_by=done_at)

    def names(self) -> list[str]:
        """Every id there ever was, newest last."""
        with self._lock:
            return list(self._spans)

    def list_allowed(self, model_id: str, begun_at: float, ended_at: float) -> set[int]:
        with self._lock:
            return self._spans[model_id].list_allowed(begun_at, ended_at)


# --- Generations: rows that change together -------------------------------------------------------


def generation(number: int, base_url: str) -> str:
    """A catalogue file in which credentials, upstream names and prices all say this number.

    The pair is to be tried in the order of its personas.
    """
    providers = [
        bench.provider(persona, f"{base_url}/{persona}/v1", credential=secret(persona, number))
        for persona in PERSONAS
    ]
    pricing = {"prompt": f"{number / 1e6:.6f}", "completion": "0"}
    ends = {
        persona: bench.endpoint(persona, f"upstream-{number}", pricing=pricing)
        for persona in PERSONAS
    }
    models = [bench.model(WHOLE, ends["second"]), bench.model(PAIR, *ends.values())]
    return bench.as_yaml(providers, models)


def secret(persona: str, number: int) -> str:
    return f"{persona}-secret-{number}"


def number_of(entry: dict[str, Any]) -> int:
    """The generation of one request as the simulated upstream logged it: its upstream model's name
    and its credential must be of the same one."""
    number = int(entry["body"]["model"].removeprefix("upstream-"))
    sent = secret(entry["persona"], number)
    digest = hashlib.sha256(sent.encode()).hexdigest()[:16]
    assert entry["headers"]["authorization"] == f"sha256:{digest}", (number, entry["persona"])
    return number
