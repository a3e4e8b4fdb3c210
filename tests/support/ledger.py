"""A running server's books, read past the gateway by plain SQL on either kind of store."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import psycopg

from tests.support.orm import database_name

_GENERATION = (
    "g.id, g.external_user, g.lost, g.cancelled, g.status, g.tokens_prompt, g.tokens_completion,"
    " g.charge_nano, g.hold_nano, g.overrun"
)


@dataclass(frozen=True, slots=True)
class Call:
    """A generation and the entries that name it. `user` is what the caller's body said."""

    id: str
    user: str | None
    lost: bool
    cancelled: bool
    status: int
    tokens_prompt: int
    tokens_completion: int
    charge_nano: int
    hold_nano: int
    overrun: bool
    entries: int
    entries_nano: int
    settled_at: datetime | None


class Ledger:
    """`calls`, `open_holds` and `totals` as they are committed at this moment."""

    def __init__(self, database_url: str) -> None:
        self._url = database_url
        self._is_sqlite = database_url.startswith("sqlite:")

    @contextmanager
    def connect(self) -> Iterator[Any]:
        """A connection past the gateway."""
        if self._is_sqlite:
            with closing(sqlite3.connect(database_name(self._url), timeout=60)) as connection:
                yield connection
        else:
            with psycopg.connect(self._url, autocommit=True, connect_timeout=60) as connection:
                yield connection

    def rows(self, sql: str, *parameters: Any) -> list[tuple[Any, ...]]:
        with self.connect() as connection:
            if self._is_sqlite:
                sql = sql.replace("%s", "?")
            return list(connection.execute(sql, parameters).fetchall())

    def calls(self, account_id: str) -> list[Call]:
        """Every generation of an account, with what its entries come to."""
        found = self.rows(
            f"SELECT {_GENERATION}, COUNT(e.id), COALESCE(SUM(e.amount_nano), 0),"  # noqa: S608 - Constant columns.
            " MAX(e.created_at) FROM routing_generation g"
            " LEFT JOIN accounts_ledgerentry e ON e.generation_id = g.id"
            f" WHERE g.account_id = %s GROUP BY {_GENERATION}",
            self._uuid(account_id),
        )
        return [_call(row) for row in found]

    def entries_without_a_generation(self) -> int:
        count: int = self.rows(
            "SELECT COUNT(*) FROM accounts_ledgerentry e WHERE e.kind = 'usage' AND NOT EXISTS"
            " (SELECT 1 FROM routing_generation g WHERE g.id = e.generation_id)"
        )[0][0]
        return count

    def open_holds(self) -> int:
        count: int = self.rows("SELECT COUNT(*) FROM accounts_hold")[0][0]
        return count

    def totals(self, account_id: str) -> tuple[int, int, int]:
        """Credits, usage and what is held, as the account's row says."""
        (row,) = self.rows(
            "SELECT total_credits_nano, total_usage_nano, held_nano FROM accounts_account"
            " WHERE id = %s",
            self._uuid(account_id),
        )
        return row[0], row[1], row[2]

    def _uuid(self, text: str) -> Any:
        return UUID(text).hex if self._is_sqlite else UUID(text)


def _call(row: tuple[Any, ...]) -> Call:
    """SQLite tells booleans as numbers and moments as text; PostgreSQL sums as decimals."""
    told = dict(zip((column.name for column in fields(Call)), row, strict=True))
    told |= {name: bool(told[name]) for name in ("lost", "cancelled", "overrun")}
    told["entries_nano"] = int(told["entries_nano"])
    if isinstance(told["settled_at"], str):
        told["settled_at"] = datetime.fromisoformat(told["settled_at"]).replace(tzinfo=UTC)
    return Call(**told)
