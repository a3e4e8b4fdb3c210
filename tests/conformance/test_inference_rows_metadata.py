"""Rows 46 to 48: who was considered, tried and chosen, for those who ask; and where it stands."""

from typing import Any

import pytest

from tests.conformance.desk import Desk

ASKED = {"X-Router-Metadata": "enabled"}


def list_selected(metadata: dict[str, Any]) -> list[dict[str, Any]]:
    return [each for each in metadata["endpoints"]["available"] if each["selected"]]


@pytest.mark.parametrize("header", ["X-Router-Metadata", "X-Router-Experimental-Metadata"])
def test_metadata_has_every_required_field(desk: Desk, header: str) -> None:
    answer = desk.ok(model="acme/small", headers={header: "ENABLED"})

    told = answer["router_metadata"]
    provider = answer["provider"]
    endpoints, took = told.pop("endpoints"), told.pop("generation_time")
    assert told == {
        "requested": "acme/small",
        "strategy": "direct",
        "region": "local",
        "summary": f"available=3, selected={provider}",
        "attempt": 1,
        "is_byok": False,
        "attempts": [{"provider": provider, "model": "acme/small", "status": 200}],
    }
    assert endpoints["total"] == 3
    assert {each["provider"] for each in endpoints["available"]} == {"Alpha", "Beta"}
    assert [each["provider"] for each in list_selected({"endpoints": endpoints})] == [provider]
    assert took >= 0
    assert len(desk.upstream.requests()) == 1


@pytest.mark.parametrize("value", [None, "yes"])
def test_whoever_does_not_ask_in_the_right_word_is_told_nothing(
    desk: Desk, value: str | None
) -> None:
    headers = {} if value is None else {"X-Router-Metadata": value}

    assert "router_metadata" not in desk.ok(headers=headers)
    assert "router_metadata" not in desk.stream(headers=headers).chunks[-1]


def test_a_404_says_who_was_considered_and_that_nobody_was_tried(desk: Desk) -> None:
    response = desk.post(model="acme/small", provider={"only": ["gamma"]}, headers=ASKED)

    assert response.status_code == 404
    body = response.json()
    told = body["router_metadata"]
    assert (told["attempt"], list_selected(told)) == (0, [])
    # Those before the filter that left nobody.
    assert told["endpoints"]["total"] == 3
    assert not {"attempts", "generation_time"} & told.keys()
    assert body["error"]["metadata"] == {
        "error_type": "not_found",
        "failed_routing_step": "Filter by Allowed Providers",
        "available_providers": ["alpha", "beta"],
        "requested_providers": ["gamma"],
        "request_id": response.headers["X-Request-Id"],
    }
    assert desk.upstream.requests() == []


def test_before_there_is_a_choice_nothing_is_told_of_it(desk: Desk) -> None:
    stranger = ASKED | {"Authorization": "Bearer sk-or-v1-nobody"}
    responses = [
        desk.post(headers=stranger),
        desk.post(headers=ASKED, messages=[]),
        desk.post(headers=ASKED, model="nope/none"),
        desk.post(headers=ASKED, messages=[{"role": "user", "content": "x" * (33 << 20)}]),
    ]

    assert [response.status_code for response in responses] == [401, 400, 400, 413]
    assert not any("router_metadata" in response.json() for response in responses)
