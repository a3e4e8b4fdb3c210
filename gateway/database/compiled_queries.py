"""Querysets whose SQL is made once.

Django takes milliseconds to write a query of many joins and conditions, each time anew, and all of
it holds the event loop. What a query of the request path asks for never changes but in its values.
"""

import copy
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from types import SimpleNamespace
from typing import Any, Final, Generic, TypeVar
from uuid import UUID

from django.db import DEFAULT_DB_ALIAS, connections
from django.db.models import Model, QuerySet
from django.db.models.query import ModelIterable

M = TypeVar("M", bound=Model)
# Far from what any row has.
_NUMBER: Final = 0x7A_5C_00_00_00_00_00_00


@dataclass(frozen=True)
class _CompiledSql:
    """The compiler of one backend with its SQL; `slots` says which value stands where, and what
    the backend makes of it."""

    compiler: Any
    sql: str
    params: tuple[Any, ...]
    slots: tuple[tuple[int, str, Callable[[Any], Any]], ...]


class CompiledQuery(Generic[M]):
    """`prepared(name=value, ...)` gives the objects of `make(name=value, ...)`.

    `kinds` says what each value is: `str`, `int` or `UUID`; None is equal to nothing, as in SQL.
    `make` must put the values into conditions and nowhere else, and never ask whether they are
    None. With `evenly` finding nothing takes as long as finding what was found last. Raises
    `ValueError` for a value that `make` does not use.
    """

    def __init__(
        self, make: Callable[..., QuerySet[M]], *, evenly: bool = False, **kinds: type
    ) -> None:
        self._make = make
        self._evenly = evenly
        self._last_row: Any = None
        self._samples: dict[str, Any] = {}
        for number, (name, kind) in enumerate(kinds.items()):
            if kind is UUID:
                self._samples[name] = UUID(int=_NUMBER << 64 | number)
            else:
                self._samples[name] = _NUMBER + number if kind is int else f"\x01{name}\x01"

    def __call__(self, **values: object) -> list[M]:
        made = self._compiled_sql
        params = list(made.params)
        for at, name, adapted in made.slots:
            value = values[name]
            params[at] = None if value is None else adapted(value)
        compiler = copy.copy(made.compiler)
        compiler.connection = connections[DEFAULT_DB_ALIAS]
        compiler.as_sql = lambda: (made.sql, tuple(params))
        rows = [row for chunk in compiler.execute_sql() for row in chunk]
        if rows or not self._evenly:
            self._last_row = next(iter(rows), None)
            return self._objects(compiler, rows)
        self._objects(compiler, [self._last_row] if self._last_row else [])
        return []

    def _objects(self, compiler: Any, rows: list[Any]) -> list[M]:
        compiler.execute_sql = lambda **_: [rows]
        query = SimpleNamespace(get_compiler=lambda using: compiler)
        view: Any = SimpleNamespace(query=query, db=DEFAULT_DB_ALIAS, _known_related_objects={})
        return list(ModelIterable(view))

    @cached_property
    def _compiled_sql(self) -> _CompiledSql:
        compiler = self._make(**self._samples).query.get_compiler(DEFAULT_DB_ALIAS)
        sql, params = compiler.as_sql()
        slots = tuple(
            (at, name, adapted)
            for at, param in enumerate(params)
            for name, sample in self._samples.items()
            if (adapted := _find_adapter(param, sample)) is not None
        )
        if unused := self._samples.keys() - {name for _, name, _ in slots}:
            raise ValueError(f"the query has no place for {', '.join(sorted(unused))}")
        # It keeps no connection of its first caller.
        compiler.connection = None
        return _CompiledSql(compiler, sql, tuple(params), slots)


def _find_adapter(param: object, sample: object) -> Callable[[Any], Any] | None:
    """How a value gets where its sample stands; None where that is not here. SQLite has no UUIDs
    of its own."""
    if isinstance(sample, UUID) and param == sample.hex:
        return lambda value: value.hex
    return (lambda value: value) if type(param) is type(sample) and param == sample else None
