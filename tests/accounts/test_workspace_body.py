"""Bodies of /workspaces: what is read, and what each refusal says."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accounts import known_models
from accounts.services.workspaces import SETTINGS, named
from accounts.views.workspace_body import read_changes, read_members, read_new_workspace
from gateway.http.errors import GatewayError, SchemaInvalid

NEW = {"name": "Production", "slug": "production"}
PATTERN = "Invalid string: must match pattern /^[a-z0-9]+(?:-[a-z0-9]+)*$/"


@pytest.fixture(autouse=True)
def models(monkeypatch: pytest.MonkeyPatch) -> None:
    """The models known here are those of acme."""
    monkeypatch.setattr(known_models, "_checks", [lambda name: name.startswith("acme/")])


def text_of(read: Any, body: dict[str, Any]) -> str:
    with pytest.raises(GatewayError) as refusal:
        read(body)
    assert refusal.value.status == 400
    return refusal.value.text


def test_two_fields_make_a_workspace() -> None:
    assert read_new_workspace(NEW | {"foo": 1, "created_by": "user_x"}) == NEW | {
        "description": None,
        "default_text_model": "",
        "default_image_model": "",
        "default_provider_sort": None,
        "disabled_server_tools": None,
        "io_logging_api_key_ids": None,
        "io_logging_sampling_rate": 1,
        "is_data_discount_logging_enabled": False,
        "is_observability_broadcast_enabled": False,
        "is_observability_io_logging_enabled": False,
    }


def test_every_setting_is_a_column() -> None:
    assert set(read_new_workspace(NEW)) == set(SETTINGS)


def test_changes_are_what_was_said_and_no_more() -> None:
    assert read_changes({"description": None, "foo": 1}) == {"description": None}
    assert read_changes({"default_text_model": None}) == {"default_text_model": ""}
    assert read_changes({"default_image_model": "acme/paint"}) == {
        "default_image_model": "acme/paint"
    }
    tools = ["router:bash", "router:shell", "router:bash"]
    assert read_changes({"disabled_server_tools": tools}) == {"disabled_server_tools": tools[:2]}
    assert read_changes({"disabled_server_tools": []}) == {"disabled_server_tools": None}
    assert read_changes({"io_logging_api_key_ids": []}) == {"io_logging_api_key_ids": []}
    ids = [1, "a" * 64]
    assert read_changes({"io_logging_api_key_ids": ids}) == {"io_logging_api_key_ids": ids}


@pytest.mark.parametrize("body", [{}, {"foo": 1}, {"include_byok_in_budgets": True}])
def test_a_change_of_nothing_is_refused(body: dict[str, Any]) -> None:
    assert text_of(read_changes, body) == "No update fields provided"


@pytest.mark.parametrize(
    ("field", "value", "text"),
    [
        ("name", "", "Too small: expected string to have >=1 characters"),
        ("name", "n" * 101, "Too big: expected string to have <=100 characters"),
        ("name", None, "Invalid input: expected string, received null"),
        ("slug", "-bad", PATTERN),
        ("slug", "a--b", PATTERN),
        ("slug", "Ab", PATTERN),
        ("slug", "a\n", PATTERN),
        ("slug", "a" * 51, "Too big: expected string to have <=50 characters"),
        ("description", "d" * 501, "Too big: expected string to have <=500 characters"),
        ("default_text_model", "nope/none", "nope/none is not a valid model ID"),
        ("default_text_model", "", " is not a valid model ID"),
        ("default_image_model", 3, "Invalid input: expected string, received number"),
        (
            "default_provider_sort",
            "luck",
            'Invalid option: expected one of "price"|"throughput"|"latency"|"exacto"',
        ),
        ("disabled_server_tools", "x", "Invalid input: expected array, received string"),
        ("io_logging_sampling_rate", 0, "Too small: expected number to be >=0.0001"),
        ("io_logging_sampling_rate", 1.1, "Too big: expected number to be <=1"),
        ("io_logging_sampling_rate", None, "Invalid input: expected number, received null"),
        ("io_logging_sampling_rate", True, "Invalid input: expected number, received boolean"),
        (
            "is_observability_io_logging_enabled",
            1,
            "Invalid input: expected boolean, received number",
        ),
        (
            "io_logging_api_key_ids",
            list(range(1001)),
            "Too big: expected array to have <=1000 items",
        ),
    ],
)
def test_each_bound_has_its_words(field: str, value: Any, text: str) -> None:
    assert text_of(read_new_workspace, NEW | {field: value}) == f"{field}: {text}"
    assert text_of(read_changes, {field: value}) == f"{field}: {text}"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (True, "Invalid input: expected number, received boolean"),
        (1.5, "Invalid input: expected int, received number"),
        ("A" * 64, "Invalid input: expected number, received string"),
        (None, "Invalid input: expected number, received null"),
    ],
)
def test_a_key_is_named_by_number_or_hash(value: Any, text: str) -> None:
    body = {"io_logging_api_key_ids": [1, value]}

    assert text_of(read_changes, body) == f"io_logging_api_key_ids.1: {text}"


def test_all_that_is_wrong_is_told_in_order() -> None:
    body = {"name": 1, "disabled_server_tools": ["router:bash", "router:nope"]}

    with pytest.raises(SchemaInvalid) as refusal:
        read_new_workspace(body)

    paths = [each["path"] for each in refusal.value.metadata["issues"]]
    assert paths == ["name", "slug", "disabled_server_tools.1"]
    assert "slug: Invalid input: expected string, received undefined" in refusal.value.text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ([], "user_ids: Too small: expected array to have >=1 items"),
        (["u"] * 101, "user_ids: Too big: expected array to have <=100 items"),
        ([1], "user_ids.0: Invalid input: expected string, received number"),
        (None, "user_ids: Invalid input: expected array, received null"),
    ],
)
def test_members_are_named_by_one_to_a_hundred_ids(value: Any, text: str) -> None:
    assert text_of(read_members, {"user_ids": value}) == text


def test_members_must_be_named_and_count_once() -> None:
    assert text_of(read_members, {}) == (
        "user_ids: Invalid input: expected array, received undefined"
    )
    assert read_members({"user_ids": ["b", "a", "b"]}) == ["b", "a"]


@given(st.text(max_size=60))
def test_any_path_segment_asks_the_table_something_it_can_answer(reference: str) -> None:
    wanted = named(reference)

    if wanted is not None:
        assert reference.isascii()
        assert "\0" not in reference
