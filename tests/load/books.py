"""The books after a run: the audit's word, and that nothing answered is missing."""

import sys
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import psycopg

from tests.load.stand import COMPLETION_NANO, DATABASE, PROMPT_NANO, Stand
from tests.support import processes

# Callers that the load generator cut off are settled within this.
_SETTLE_S = 15.0
_COUNTS = """
    SELECT count(*), count(*) FILTER (
        WHERE status = 200 AND NOT cancelled AND NOT lost AND (
            tokens_completion = 0
            OR charge_nano <> tokens_prompt * %s + tokens_completion * %s
        )
    )
    FROM routing_generation
"""


@dataclass(frozen=True)
class Books:
    """`answered` requests the load generators saw; `generations` the database holds.

    `mischarged` are finished ones whose charge is not their tokens at the catalogue's prices.
    """

    mismatches: list[str]
    open_holds: int
    generations: int
    answered: int
    mischarged: int

    def problems(self) -> list[str]:
        """A line for each thing that must not be; none when all is well."""
        found = [f"the books do not agree: {mismatch}" for mismatch in self.mismatches]
        if self.open_holds:
            found.append(f"{self.open_holds} holds are still open though no request is")
        if self.generations < self.answered:
            found.append(f"{self.answered} answers, but only {self.generations} generations")
        if self.mischarged:
            found.append(f"{self.mischarged} generations are not charged what their tokens cost")
        return found

    def tell(self) -> bool:
        """Say what was found; whether all is well."""
        problems = self.problems()
        for problem in problems:
            sys.stderr.write(f"bench: {problem}\n")
        if not problems:
            sys.stdout.write(f"The books agree after {self.generations} generations.\n")
        return not problems


def closed_books(stand: Stand, *, answered: int) -> Books:
    """The audit once no hold is open, or when waiting for that has taken long enough."""
    found: dict[str, Any] = {}

    def at_rest() -> bool:
        found.update(stand.gateway.run_command("audit_ledger", "--json").json())
        return not found["open_holds"]

    with suppress(TimeoutError):
        processes.eventually(at_rest, within_s=_SETTLE_S, what="the last settlement", log=None)
    with psycopg.connect(stand.postgres.url(DATABASE)) as connection:
        row = connection.execute(_COUNTS, [PROMPT_NANO, COMPLETION_NANO]).fetchone()
    assert row is not None
    generations, mischarged = row
    return Books(found["mismatches"], found["open_holds"], generations, answered, mischarged)
