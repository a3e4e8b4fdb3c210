"""Bodies of keys and workspaces: what is read, and what each refusal says."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.urls import get_resolver
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from accounts import ports
from accounts.limit_words import ManagedBody, ManagedChanges, describe_unknown_limit
from accounts.services.workspaces import match_reference
from accounts.views.byok import read_new_credential
from accounts.views.schemas.guardrail import (
    read_guardrail_changes,
    read_new_guardrail,
)
from accounts.views.schemas.key import KeyRotation, NewKey, read_key_changes
from accounts.views.schemas.workspace import (
    WorkspaceUserIds,
    read_budget,
    read_new_workspace,
    read_workspace_changes,
)
from gateway.http.errors import GatewayError, SchemaInvalid
from tests.accounts.higher import ReplacedApps


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"name": ...}, "name: Invalid input: expected string, received undefined"),
        ({"name": ""}, "name: Too small: expected string to have >=1 characters"),
        ({"name": "x" * 101}, "name: Too big: expected string to have <=100 characters"),
        ({"limit": -1}, "limit: Too small: expected number to be >=0"),
        ({"limit": True}, "limit: Invalid input: expected number, received boolean"),
        ({"limit": 1e-10}, "limit: Invalid input: expected at most 9 decimal places"),
        ({"limit_reset": "hourly"}, 'limit_reset: Invalid option: expected one of "daily"|'),
        ({"expires_at": "2130-01-01T00:00Z"}, "expires_at: Invalid ISO datetime"),
        ({"expires_at": "2130-01-01T00:00:00+02:00"}, "expires_at: Invalid ISO datetime"),
        ({"expires_at": "2020-01-01T00:00:00Z"}, "expires_at: Invalid input: expected a moment"),
        ({"workspace_id": "zz"}, "workspace_id: Invalid UUID"),
        (
            {"external": {"user": "u", "api_key": "k" * 40}},
            "external.api_key: Invalid input: a",
        ),
    ],
)
def test_an_odd_field_is_named(changes: dict[str, Any], text: str) -> None:
    body = {name: said for name, said in ({"name": "k"} | changes).items() if said is not ...}
    with pytest.raises(SchemaInvalid) as refused:
        NewKey.read(body)
    assert refused.value.text.startswith(text)


NEW = {"name": "Production", "slug": "production"}
PATTERN = "Invalid string: must match pattern /^[a-z0-9]+(?:-[a-z0-9]+)*$/"


@pytest.fixture(autouse=True)
def models(monkeypatch: pytest.MonkeyPatch) -> None:
    """The models known here are those of acme."""
    apps = ReplacedApps(is_known_model=lambda name: name.startswith("acme/"))
    monkeypatch.setattr(ports, "_registered", [apps])


def text_of(read: Any, body: dict[str, Any]) -> str:
    with pytest.raises(GatewayError) as refusal:
        read(body)
    assert refusal.value.status == 400
    return refusal.value.text


TOOLS = ["router:bash", "router:shell"]


def test_changes_are_what_was_said_and_no_more() -> None:
    changes: list[tuple[dict[str, Any], dict[str, Any]]] = [
        ({"description": None, "foo": 1}, {"description": None}),
        ({"default_text_model": None}, {"default_text_model": ""}),
        ({"default_image_model": "acme/paint"}, {"default_image_model": "acme/paint"}),
        ({"disabled_server_tools": [*TOOLS, TOOLS[0]]}, {"disabled_server_tools": TOOLS}),
        ({"disabled_server_tools": []}, {"disabled_server_tools": None}),
        ({"io_logging_api_key_ids": []}, {"io_logging_api_key_ids": []}),
        ({"io_logging_api_key_ids": [1, "a" * 64]}, {"io_logging_api_key_ids": [1, "a" * 64]}),
    ]
    for said, read in changes:
        assert read_workspace_changes(said) == read


SORTS = 'expected one of "price"|"throughput"|"latency"|"exacto"'


@pytest.mark.parametrize(
    ("field", "value", "text"),
    [
        ("name", "", "Too small: expected string to have >=1 characters"),
        ("name", "n" * 101, "Too big: expected string to have <=100 characters"),
        ("slug", "-bad", PATTERN),
        ("slug", "a--b", PATTERN),
        ("slug", "Ab", PATTERN),
        ("slug", "a\n", PATTERN),
        ("slug", "a" * 51, "Too big: expected string to have <=50 characters"),
        ("description", "d" * 501, "Too big: expected string to have <=500 characters"),
        ("default_text_model", "", " is not a valid model ID"),
        ("default_image_model", 3, "Invalid input: expected string, received number"),
        ("default_provider_sort", "luck", f"Invalid option: {SORTS}"),
        ("io_logging_sampling_rate", 0, "Too small: expected number to be >=0.0001"),
        ("io_logging_sampling_rate", 1.1, "Too big: expected number to be <=1"),
        ("io_logging_sampling_rate", None, "Invalid input: expected number, received null"),
        (
            "is_observability_io_logging_enabled",
            1,
            "Invalid input: expected boolean, received number",
        ),
        ("io_logging_api_key_ids", [1] * 1001, "Too big: expected array to have <=1000 items"),
    ],
)
def test_each_bound_has_its_words(field: str, value: Any, text: str) -> None:
    assert text_of(read_new_workspace, NEW | {field: value}) == f"{field}: {text}"
    assert text_of(read_workspace_changes, {field: value}) == f"{field}: {text}"


def test_a_change_of_nothing_is_refused_and_keys_are_named_by_number_or_hash() -> None:
    for nothing in ({}, {"foo": 1}, {"include_byok_in_budgets": True}, {"queue_weight": 100}):
        assert text_of(read_workspace_changes, nothing) == "No update fields provided"
    for value, text in (
        (True, "expected number, received boolean"),
        (1.5, "expected int, received number"),
        ("A" * 64, "expected number, received string"),
        (None, "expected number, received null"),
    ):
        said = text_of(read_workspace_changes, {"io_logging_api_key_ids": [1, value]})
        assert said == f"io_logging_api_key_ids.1: Invalid input: {text}"


def test_a_budget_is_of_a_tag_that_requests_can_have_and_of_an_interval_once() -> None:
    def read(*tags: str) -> Any:
        each = {"reset_interval": "daily", "limit_usd": 1}
        return read_workspace_changes({"tag_budgets": [each | {"tag": tag} for tag in tags]})

    longest = "n" * 64 + "=" + "\n" * 512
    kept = read("team=*", "team=blue", longest)["tag_budgets"]
    assert [each["tag"] for each in kept] == ["team=*", "team=blue", longest]
    for tag in ("n" + longest, longest + "v", "a=\x00", "team=", "=blue"):
        with pytest.raises(SchemaInvalid, match=r"^tag_budgets\.0\.tag: Invalid string"):
            read(tag)
    for tag in ("team=*", "team=blue"):
        with pytest.raises(SchemaInvalid, match=r"^tag_budgets\.2: The tag has a budget of this"):
            read(tag, "team=x", tag)


def test_all_that_is_wrong_is_told_in_order() -> None:
    body = {"name": 1, "disabled_server_tools": ["router:bash", "router:nope"]}

    with pytest.raises(SchemaInvalid) as refusal:
        read_new_workspace(body)

    paths = [each["path"] for each in refusal.value.metadata["issues"]]
    assert paths == ["name", "slug", "disabled_server_tools.1"]
    assert "slug: Invalid input: expected string, received undefined" in refusal.value.text


@given(st.text(max_size=60))
def test_any_path_segment_asks_the_table_something_it_can_answer(reference: str) -> None:
    wanted = match_reference(reference)
    if wanted is not None:
        assert reference.isascii()
        assert "\0" not in reference


READERS: list[tuple[Callable[[Any], Any], dict[str, Any]]] = [
    (NewKey.read, {"name": "a"}),
    (read_key_changes, {"name": "a"}),
    (read_new_workspace, {"name": "a", "slug": "a"}),
    (read_workspace_changes, {"name": "a"}),
    (read_new_guardrail, {"name": "a"}),
    (read_guardrail_changes, {"name": "a"}),
    (read_new_credential, {"provider": "acme", "key": "a"}),
    (read_budget, {"limit_usd": 1}),
]


@pytest.mark.parametrize(("read", "body"), READERS)
def test_every_body_refuses_unknown_limits(
    read: Callable[[Any], Any], body: dict[str, Any]
) -> None:
    limits = "rpm RPM max_budget budget_duration rateLimit monthly_budget requests_limit"
    for name in limits.split():
        with pytest.raises(SchemaInvalid) as refused:
            read({**body, name: 60})
        assert str(refused.value).startswith(f'Unrecognized key: "{name}"; ')


def test_no_body_of_a_managed_resource_ignores_a_limit() -> None:
    def list_bodies(base: type[ManagedBody]) -> Iterator[type[ManagedBody]]:
        for body in base.__subclasses__():
            yield from (body, *list_bodies(body))

    # All of them, wherever they are.
    assert get_resolver().url_patterns
    found = set(list_bodies(ManagedBody))
    assert {NewKey, KeyRotation, WorkspaceUserIds} < found
    for body in found - {ManagedChanges}:
        with pytest.raises(ValidationError) as refused:
            body.model_validate({"rpm": 60})
        assert [each["type"] for each in refused.value.errors()] == ["unknown_limit"], body


HINTS: list[tuple[Any, str, str]] = [
    (NewKey.read, "max_budget", "use `limit`"),
    (NewKey.read, "budget_duration", "use `limit_reset`"),
    (NewKey.read, "expires_in", "use `expires_at`"),
    (NewKey.read, "blocked_models", "a guardrail limits this for the keys and members"),
    (read_new_guardrail, "limit", "use `limit_usd`"),
    (read_new_guardrail, "models", "use `allowed_models`"),
    (read_new_credential, "models", "use `allowed_models`"),
    (read_new_workspace, "max_budget", "spending is limited by `limit` of a key"),
]


def test_it_names_the_right_field_where_there_is_one() -> None:
    for read, name, hint in HINTS:
        with pytest.raises(SchemaInvalid) as refused:
            read({"name": "a", name: "1"})
        assert f'"{name}"; {hint}' in str(refused.value)
    with pytest.raises(SchemaInvalid, match=r'^external: Unrecognized key: "rpm"; '):
        NewKey.read({"name": "a", "external": {"user": "u", "rpm": 1}})


def test_null_limits_nothing_and_other_fields_are_ignored() -> None:
    said = {"name": "a", "rpm": None, "max_budget": None, "limit_remaining": 1}
    assert read_key_changes(said) == {"name": "a"}


@given(st.dictionaries(st.text(), st.integers()), st.sets(st.text()))
def test_what_is_known_is_no_unknown_limit(body: dict[str, int], known: set[str]) -> None:
    assert describe_unknown_limit(body, known | body.keys()) is None
    assert describe_unknown_limit({"rpm": 1, **body}, known | body.keys() | {"rpm"}) is None
