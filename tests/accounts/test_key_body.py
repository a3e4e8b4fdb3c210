"""The body of POST /keys: what is read, and what each refusal says."""

from decimal import Decimal
from typing import Any

import pytest

from accounts.views.key_body import read_key_body
from gateway.http.errors import SchemaInvalid


def test_a_whole_body_is_read() -> None:
    wanted = read_key_body(
        {
            "name": "k",
            "limit": 0.1,
            "limit_reset": "daily",
            "expires_at": "2130-01-01T00:00:00.5Z",
            "include_byok_in_limit": True,
            "foo": "ignored",
        }
    )

    assert (wanted.name, wanted.limit, wanted.limit_reset) == ("k", Decimal("0.1"), "daily")
    assert wanted.include_byok_in_limit
    assert wanted.expires_at is not None


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"name": ""}, "name: Too small: expected string to have >=1 characters"),
        ({"name": "x" * 101}, "name: Too big: expected string to have <=100 characters"),
        ({"name": None}, "name: Invalid input: expected string, received null"),
        ({"limit": -1}, "limit: Too small: expected number to be >=0"),
        ({"limit": "5"}, "limit: Invalid input: expected number, received string"),
        ({"limit": True}, "limit: Invalid input: expected number, received boolean"),
        ({"limit": 1e-10}, "limit: Invalid input: expected at most 9 decimal places"),
        ({"limit": 1e300}, "limit: Invalid input: expected at most 9 decimal places"),
        ({"limit_reset": "hourly"}, 'limit_reset: Invalid option: expected one of "daily"|'),
        ({"expires_at": "2130-01-01T00:00Z"}, "expires_at: Invalid ISO datetime"),
        ({"expires_at": "2130-01-01T00:00:00+02:00"}, "expires_at: Invalid ISO datetime"),
        ({"expires_at": "2020-01-01T00:00:00Z"}, "expires_at: Invalid input: expected a moment"),
        ({"workspace_id": "zz"}, "workspace_id: Invalid UUID"),
        ({"external": {}}, "external.user: Invalid input: expected string, received undefined"),
        ({"external": {"user": "u" * 257}}, "external.user: Too big: "),
        (
            {"external": {"user": "u", "api_key": "k" * 40}},
            "external.api_key: Invalid input: a key's string is made here",
        ),
    ],
)
def test_an_odd_field_is_named(changes: dict[str, Any], text: str) -> None:
    with pytest.raises(SchemaInvalid) as refused:
        read_key_body({"name": "k"} | changes)

    assert refused.value.text.startswith(text)


def test_a_missing_name_is_told_as_such() -> None:
    with pytest.raises(SchemaInvalid, match="name: Invalid input: expected string, received undef"):
        read_key_body({})
