"""Rows 21 to 32 of the management reference's section 19, and 60 of the inference reference's."""

from typing import Any

import pytest
import requests

from tests.conformance.desk import Desk, called_models
from tests.conformance.test_management_rows import error_of
from tests.support.server import as_json

PRESETS = "/api/v1/presets"
SYSTEM = "You write mails."
EMAIL = {
    "model": "acme/solo",
    "temperature": 0.7,
    "messages": [{"role": "system", "content": SYSTEM}, {"role": "user", "content": "Hi"}],
    "stream": True,
}


@pytest.fixture
def desk(own_desk: Desk) -> Desk:
    return own_desk


def make(desk: Desk, path: str, body: dict[str, Any]) -> requests.Response:
    return desk.server.post(PRESETS + path, key=desk.account.api_key, json=body)


def make_ok(desk: Desk, path: str, body: dict[str, Any]) -> Any:
    response = make(desk, path, body)
    assert response.status_code == 200, response.text
    return as_json(response)["data"]


def get_preset(desk: Desk, path: str = "", *, key: str = "") -> requests.Response:
    return desk.server.get(PRESETS + path, key=key or desk.account.api_key)


def email(desk: Desk, **changes: Any) -> Any:
    return make_ok(desk, "/email/chat/completions", EMAIL | changes)


def test_a_preset_from_a_chat_body(desk: Desk) -> None:
    data = email(desk)

    version = data["designated_version"]
    assert version["version"] == 1
    assert version["config"] == {"model": "acme/solo", "temperature": 0.7}
    assert version["system_prompt"] == SYSTEM
    assert version["preset_id"] == data["id"]
    assert version["creator_id"] == data["creator_user_id"] == desk.account.user_id
    assert (data["slug"], data["name"], data["status"]) == ("email", "email", "active")
    assert (data["description"], data["status_updated_at"]) == (None, None)
    assert data["workspace_id"] == desk.account.workspace_id
    assert as_json(get_preset(desk, "/email")) == {"data": data}


def test_the_same_again_is_a_new_version(desk: Desk) -> None:
    first = email(desk)
    second = email(desk, temperature=0.2)

    assert second["id"] == first["id"]
    assert second["designated_version"]["version"] == 2
    assert second["designated_version_id"] == second["designated_version"]["id"]
    assert second["designated_version_id"] != first["designated_version_id"]
    assert second["updated_at"] >= first["updated_at"]
    assert as_json(get_preset(desk, "/email"))["data"] == second
    listed = as_json(get_preset(desk, "/email/versions"))
    assert [version["version"] for version in listed["data"]] == [1, 2]
    assert [version["config"]["temperature"] for version in listed["data"]] == [0.7, 0.2]
    assert listed["total_count"] == 2
    assert as_json(get_preset(desk, "/email/versions/1"))["data"] == listed["data"][0]
    for path in ("/email/versions/9", "/none", "/none/versions"):
        error_of(get_preset(desk, path), 404)
    for number in ("0", "x", "1.5", "-1"):
        error_of(get_preset(desk, f"/email/versions/{number}"), 400)


def test_the_conversation_may_be_as_long_as_at_inference(desk: Desk) -> None:
    long = "x" * 3_000_000

    email(desk, messages=[{"role": "user", "content": long}])

    system = EMAIL | {"messages": [{"role": "system", "content": long}]}
    message = error_of(make(desk, "/email/chat/completions", system), 413)["message"]
    assert message == "Request payload too large: a preset keeps at most 1048576 bytes"
    too_long = b'{"model": "' + b"x" * 33_554_432 + b'"}'
    path = f"{PRESETS}/email/chat/completions"
    refused = desk.server.post(path, key=desk.account.api_key, data=too_long)
    assert error_of(refused, 413)["message"] == "Request payload too large"
    assert as_json(get_preset(desk, "/email/versions"))["total_count"] == 1


def test_a_request_by_preset(desk: Desk) -> None:
    preset = email(desk)

    answer = desk.ok(model="@preset/email", temperature=1)

    sent = desk.the_one_sent()
    assert (sent["model"], sent["temperature"]) == ("solo", 1)
    assert sent["messages"][0] == {"role": "system", "content": SYSTEM}
    assert sent["messages"][1]["role"] == "user"
    assert answer["model"] == "acme/solo"
    assert desk.generation(answer["id"])["preset_id"] == preset["id"]
    assert desk.paid_nano(answer) > 0


def test_a_model_of_its_own_with_a_preset(desk: Desk) -> None:
    email(desk, model="acme/small")

    answer = desk.ok(model="acme/solo@preset/email")

    assert called_models(desk) == ["solo"]
    assert answer["model"] == "acme/solo"
    sent = desk.the_one_sent()
    assert sent["temperature"] == 0.7
    assert sent["messages"][0] == {"role": "system", "content": SYSTEM}


def test_a_new_preset_and_a_new_version_are_in_force_within_a_second(own_wide_desk: Desk) -> None:
    desk = own_wide_desk
    assert desk.post(model="@preset/email").status_code == 404
    email(desk)
    desk.server.wait_until(
        lambda: desk.post(model="@preset/email").status_code == 200, within_s=1.0
    )
    email(desk, temperature=0.2)

    desk.server.wait_until(
        lambda: (
            desk.ok(model="@preset/email") and desk.list_sent_bodies()[-1]["temperature"] == 0.2
        ),
        within_s=1.0,
    )
