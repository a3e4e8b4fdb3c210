"""Unknown fields are ignored, but nobody is left to believe in a limit that is not there."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accounts.limit_words import unknown_limit
from accounts.views.budget_body import read_budget
from accounts.views.byok_body import read_changes as read_byok_changes
from accounts.views.byok_body import read_new_credential
from accounts.views.guardrail_body import read_changes as read_guardrail_changes
from accounts.views.guardrail_body import read_key_hashes, read_new_guardrail
from accounts.views.key_body import read_key_body, read_key_changes, read_key_rotation
from accounts.views.workspace_body import read_changes as read_workspace_changes
from accounts.views.workspace_body import read_members, read_new_workspace
from gateway.http.errors import SchemaInvalid

READERS: list[tuple[Callable[[Any], Any], dict[str, Any]]] = [
    (read_key_body, {"name": "a"}),
    (read_key_changes, {"name": "a"}),
    (read_key_rotation, {}),
    (read_new_workspace, {"name": "a", "slug": "a"}),
    (read_workspace_changes, {"name": "a"}),
    (read_members, {"user_ids": ["a"]}),
    (read_new_guardrail, {"name": "a"}),
    (read_guardrail_changes, {"name": "a"}),
    (read_key_hashes, {"key_hashes": ["a"]}),
    (read_new_credential, {"provider": "acme", "key": "a"}),
    (read_byok_changes, {"name": "a"}),
    (read_budget, {"limit_usd": 1}),
]


NAMES = [
    "rpm",
    "RPM",
    "max_budget",
    "budget_duration",
    "rateLimit",
    "monthly_budget",
    "requests_limit",
]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("read", "body"), READERS)
def test_every_body_refuses_an_unknown_limit_by_name(
    read: Callable[[Any], Any], body: dict[str, Any], name: str
) -> None:
    with pytest.raises(SchemaInvalid) as refused:
        read({**body, name: 60})

    assert str(refused.value).startswith(f'Unrecognized key: "{name}"; ')


HINTS = [
    (read_key_body, "max_budget", "use `limit`"),
    (read_key_body, "limit_usd", "use `limit`"),
    (read_key_body, "budget_duration", "use `limit_reset`"),
    (read_key_body, "expires_in", "use `expires_at`"),
    (read_key_body, "models", "a guardrail limits this for the keys and members"),
    (read_new_guardrail, "limit", "use `limit_usd`"),
    (read_new_guardrail, "budget_duration", "use `reset_interval`"),
    (read_new_guardrail, "models", "use `allowed_models`"),
    (read_new_guardrail, "blocked_models", "use `ignored_models`"),
    (read_new_credential, "models", "use `allowed_models`"),
    (read_new_workspace, "max_budget", "spending is limited by `limit` of a key"),
]


@pytest.mark.parametrize(("read", "name", "hint"), HINTS)
def test_it_names_the_right_field_where_there_is_one(
    read: Callable[[Any], Any], name: str, hint: str
) -> None:
    with pytest.raises(SchemaInvalid) as refused:
        read({"name": "a", name: "1"})

    assert f'"{name}"; {hint}' in str(refused.value)


def test_within_a_field_it_says_where() -> None:
    with pytest.raises(SchemaInvalid, match=r'^external: Unrecognized key: "rpm"; '):
        read_key_body({"name": "a", "external": {"user": "u", "rpm": 1}})


def test_null_limits_nothing_and_other_fields_are_ignored() -> None:
    said = read_key_changes({"name": "a", "rpm": None, "max_budget": None, "limit_remaining": 1})

    assert said == {"name": "a"}


@given(st.dictionaries(st.text(), st.integers()), st.sets(st.text()))
def test_what_is_known_is_no_unknown_limit(body: dict[str, int], known: set[str]) -> None:
    assert unknown_limit(body, known | body.keys()) is None
    assert unknown_limit({"rpm": 1, **body}, known | body.keys() | {"rpm"}) is None
