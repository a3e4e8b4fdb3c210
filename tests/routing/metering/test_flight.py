"""Statements in a flight: together on the wire, one by one in what they do."""

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import psycopg
import pytest
from django.db import connection
from hypothesis import given
from hypothesis import strategies as st

from routing.metering.flight import as_texts, insertion, numbered
from routing.metering.session import NotAsExpected, Session

TABLE = "CREATE TEMPORARY TABLE landed (id int PRIMARY KEY, said text, at timestamptz)"


@pytest.fixture
def session(transactional_db: None) -> Iterator[Session]:
    if connection.vendor != "postgresql":
        pytest.skip("SQLite has no pipeline")
    session = Session()
    session.execute(TABLE)
    yield session
    session.close()


def together(session: Session, *statements: tuple[str, tuple[Any, ...]]) -> None:
    with session.flight():
        for sql, parameters in statements:
            session.execute(sql, parameters)


def landed(session: Session) -> list[Any]:
    return list(session.execute("SELECT id, said FROM landed ORDER BY id").fetchall())


def test_statements_are_carried_out_when_the_flight_ends(session: Session) -> None:
    with session.flight():
        session.insert("landed", ("id", "said"), [(1, "one"), (2, 'a "two" \\ {x,y}')])
        condition, parameters = session.among("said", ['a "two" \\ {x,y}', "nobody"])
        update = "UPDATE landed SET id = %s WHERE "
        session.execute(update + condition, [3, *parameters])

    assert landed(session) == [(1, "one"), (3, 'a "two" \\ {x,y}')]


def test_what_stands_behind_a_statement_that_moved_too_little_is_not_carried_out(session) -> None:
    session.insert("landed", ("id",), [(1,), (2,)])

    def move(rows: int) -> None:
        with session.flight():
            session.begin()
            session.expect(rows)
            session.execute("UPDATE landed SET said = %s WHERE id < %s", ("moved", 3))
            session.commit()

    with pytest.raises(NotAsExpected):
        move(3)
    session.rollback()
    assert landed(session) == [(1, None), (2, None)]

    move(2)
    assert landed(session) == [(1, "moved"), (2, "moved")]


def test_an_error_is_raised_and_the_connection_goes_on(session: Session) -> None:
    session.begin()
    with pytest.raises(psycopg.errors.UniqueViolation):
        together(
            session,
            ("INSERT INTO landed (id) VALUES (%s), (%s)", (1, 1)),
            ("INSERT INTO landed (id) VALUES (%s)", (7,)),
        )
    session.rollback()

    # Its texts behind the failed one were not prepared, and are now.
    together(session, ("INSERT INTO landed (id) VALUES (%s)", (7,)))
    assert landed(session) == [(7, None)]


def test_a_connection_that_ended_is_told_as_such(session: Session) -> None:
    own_pid = session.execute("SELECT pg_backend_pid()").fetchone()[0]
    with connection.cursor() as other:
        other.execute("SELECT pg_terminate_backend(%s, 5000)", [own_pid])

    with pytest.raises(psycopg.OperationalError):
        together(session, ("SELECT 1", ()))


def test_values_arrive_as_they_were_and_stay_as_they_are(session: Session) -> None:
    at = datetime(2026, 2, 28, 23, 59, 59, 999_999, tzinfo=UTC)
    for said in ("ü\n\t'€", "second"):
        with session.flight():
            session.insert("landed", ("id", "said", "at"), [(-(2**31), said, at)])

    rows = session.execute("SELECT id, said, at FROM landed").fetchall()
    assert rows == [(-(2**31), "ü\n\t'€", at)]


def test_placeholders_are_numbered_from_one() -> None:
    assert numbered("a = %s AND b IN (%s, %s)") == b"a = $1 AND b IN ($2, $3)"
    sql = insertion("t", ("a", "b"))
    assert sql == "INSERT INTO t (a, b) VALUES (%s, %s) ON CONFLICT DO NOTHING"


def test_every_kind_of_value_has_its_text() -> None:
    unit = UUID("12345678123456781234567812345678")
    at = datetime(2026, 2, 28, 23, 59, 59, tzinfo=UTC)
    name = unit.hex.encode()
    assert as_texts([None, True, False, 0, -5]) == [None, b"t", b"f", b"0", b"-5"]
    assert as_texts([unit, at]) == [name, b"2026-02-28T23:59:59+00:00"]
    arrays = [b"{1,-2}", b"{7}", b"{}", b"{t,3}", b"{%s}" % name]
    assert as_texts([[1, -2], [7], [], [True, 3], [unit]]) == arrays
    assert as_texts(["", "ü"]) == [b"", "ü".encode()]


@pytest.mark.parametrize("value", [1.5, b"bytes", {}, object(), "before\x00after"])
def test_a_value_without_a_text_is_refused_and_a_nul_never_cuts_one_short(value: object) -> None:
    with pytest.raises(psycopg.DataError if isinstance(value, str) else TypeError):
        as_texts([1, value])


@given(st.lists(st.text(st.characters(exclude_characters="\x00", exclude_categories=["Cs"]))))
def test_any_list_of_texts_is_one_array_literal(values: list[str]) -> None:
    """Read back by PostgreSQL's rules: in quotes, a backslash escapes the next character."""
    [text] = as_texts([values])
    assert text is not None
    body = text.decode()
    assert body[0] + body[-1] == "{}"
    read: list[str] = []
    rest = body[1:-1]
    while rest:
        found = re.match(r'"((?:[^"\\]|\\.)*)"(,|$)', rest, re.DOTALL)
        assert found is not None
        read.append(re.sub(r"\\(.)", r"\1", found[1], flags=re.DOTALL))
        rest = rest[found.end() :]
    assert read == values
