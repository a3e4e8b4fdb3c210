"""The columns of an export, and the SQL of each.

A row is made of ledger entries (`e`), so that amounts sum to the ledger's. What was asked of whom
comes from the generation (`g`), and is empty once that is no longer kept. `tags` are all tags of a
request as one JSON object, so that each charge is in one row.
"""

from collections.abc import Callable, Sequence
from datetime import date
from functools import cache
from typing import Any, Final, Literal, NamedTuple
from uuid import UUID

from gateway.end_users import hash_user
from gateway.http.jsonio import dumps, loads
from routing.history.dialect import Dialect, read_moment

Per = Literal["generation", "day"]
PERIODS: Final[tuple[Per, ...]] = ("generation", "day")
# `words` are texts that somebody chose; `usd` and `nano` are both made of nano-USD.
Kind = Literal["text", "words", "whole", "flag", "moment", "day", "user", "usd", "nano", "tags"]


class Column(NamedTuple):
    """A column, and whether rows of days are kept apart by it."""

    name: str
    kind: Kind
    sql: str
    groups: bool = False


# Tokens belong to the charge; what gives it back repeats none.
_TOKENS: Final = ("tokens_prompt", "tokens_completion", "tokens_reasoning", "tokens_cached")
_CHARGED: Final = "CASE WHEN e.kind = 'usage' THEN {} END"


@cache
def list_columns(per: Per, dialect: Dialect) -> tuple[Column, ...]:
    """The columns of rows per generation or per day, in the order of a file."""
    workspace_id = f"COALESCE({dialect.text_of_uuid('e.workspace_id')}, '')"
    if per == "generation":
        return _list_generation_columns(dialect, workspace_id)
    amounts = (("charge", "SUM(e.amount_nano)"), ("byok", "SUM(e.byok_nano)"))
    app = dialect.json_text("g.detail", "app")
    return (
        Column("account_id", "text", f"MAX({dialect.text_of_uuid('e.account_id')})"),
        Column("account", "words", "MAX(a.name)"),
        Column("workspace_id", "text", workspace_id, groups=True),
        Column("workspace", "words", "MAX(w.name)"),
        Column("key_id", "whole", "COALESCE(e.api_key_id, 0)", groups=True),
        Column("key_hash", "text", "MAX(k.hash)"),
        Column("key", "words", "MAX(k.name)"),
        Column("model", "text", "COALESCE(g.model, '')", groups=True),
        Column("provider", "text", "COALESCE(g.provider_name, '')", groups=True),
        Column("user", "user", "COALESCE(g.external_user, '')", groups=True),
        Column("app", "words", f"COALESCE({app}, '')", groups=True),
        Column("tags", "tags", f"COALESCE({_text_of_tags(dialect)}, '')", groups=True),
        Column("requests", "whole", "SUM(CASE WHEN e.kind = 'usage' THEN 1 ELSE 0 END)"),
        *(
            Column(name, "whole", f"COALESCE(SUM({_CHARGED.format(f'g.{name}')}), 0)")
            for name in _TOKENS
        ),
        *_list_amounts(amounts),
    )


def _list_generation_columns(dialect: Dialect, workspace_id: str) -> tuple[Column, ...]:
    amounts = (("charge", "e.amount_nano + COALESCE(f.amount_nano, 0)"), ("byok", "e.byok_nano"))
    return (
        Column("entry_id", "whole", "e.id"),
        Column("booked_at", "moment", "e.created_at"),
        Column("kind", "text", "e.kind"),
        Column("generation_id", "text", "e.generation_id"),
        Column("started_at", "moment", "g.created_at"),
        Column("account_id", "text", dialect.text_of_uuid("e.account_id")),
        Column("account", "words", "a.name"),
        Column("workspace_id", "text", workspace_id),
        Column("workspace", "words", "w.name"),
        Column("key_id", "whole", "e.api_key_id"),
        Column("key_hash", "text", "k.hash"),
        Column("key", "words", "k.name"),
        Column("model", "text", "g.model"),
        Column("requested_model", "words", "g.requested_model"),
        Column("provider", "text", "g.provider_name"),
        Column("endpoint", "text", "g.endpoint_tag"),
        Column("user", "user", "g.external_user"),
        Column("app", "words", dialect.json_text("g.detail", "app")),
        Column("tags", "tags", _text_of_tags(dialect)),
        Column("api_type", "text", "g.api_type"),
        Column("status", "whole", "g.status"),
        Column("streamed", "flag", "g.streamed"),
        *(Column(name, "whole", _CHARGED.format(f"g.{name}")) for name in _TOKENS),
        *_list_amounts(amounts),
    )


def _text_of_tags(dialect: Dialect) -> str:
    return f"CAST({dialect.json_part('g.detail', 'tags')} AS text)"


def _list_amounts(amounts: Sequence[tuple[str, str]]) -> list[Column]:
    """Each amount in USD, and in whole nano-USD beside."""
    kinds: tuple[Kind, ...] = ("usd", "nano")
    return [Column(f"{name}_{kind}", kind, sql) for name, sql in amounts for kind in kinds]


def build_reader(
    columns: Sequence[Column], account_id: UUID
) -> Callable[[Sequence[Any]], list[Any]]:
    """What turns a row of a query into values: `str`, `int`, `bool`, UTC moments, or None."""
    readers: dict[Kind, Callable[[Any], Any]] = {
        "text": str,
        "words": str,
        "whole": int,
        "usd": int,
        "nano": int,
        "flag": bool,
        "moment": read_moment,
        "day": date.fromisoformat,
        "user": lambda user: hash_user(account_id, user) if user else None,
        "tags": _write_tags,
    }
    each = [readers[column.kind] for column in columns]

    def read(row: Sequence[Any]) -> list[Any]:
        return [
            None if value is None else reader(value)
            for reader, value in zip(each, row, strict=True)
        ]

    return read


def _write_tags(text: str) -> str | None:
    """The same for all that are alike: the databases space and order them as they like."""
    return dumps(dict(sorted(loads(text.encode()).items()))).decode() if text else None
