"""The books after a run: the audit's word, and that nothing answered is missing."""

from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import psycopg

from tests.load.stand import DATABASE, Stand
from tests.support import processes

# Callers that the load generator cut off are settled within this.
_SETTLE_S = 15.0


@dataclass(frozen=True)
class Books:
    """`answered` requests the load generators saw; `generations` the database holds."""

    mismatches: list[str]
    open_holds: int
    generations: int
    answered: int

    def problems(self) -> list[str]:
        """A line for each thing that must not be; none when all is well."""
        found = [f"the books do not agree: {mismatch}" for mismatch in self.mismatches]
        if self.open_holds:
            found.append(f"{self.open_holds} holds are still open though no request is")
        if self.generations < self.answered:
            found.append(f"{self.answered} answers, but only {self.generations} generations")
        return found


def closed_books(stand: Stand, *, answered: int) -> Books:
    """The audit once no hold is open, or when waiting for that has taken long enough."""
    found: dict[str, Any] = {}

    def at_rest() -> bool:
        found.update(stand.gateway.run_command("audit_ledger", "--json").json())
        return not found["open_holds"]

    with suppress(TimeoutError):
        processes.eventually(at_rest, within_s=_SETTLE_S, what="the last settlement", log=None)
    with psycopg.connect(stand.postgres.url(DATABASE)) as connection:
        row = connection.execute("SELECT count(*) FROM routing_generation").fetchone()
    assert row is not None
    return Books(found["mismatches"], found["open_holds"], int(row[0]), answered)
