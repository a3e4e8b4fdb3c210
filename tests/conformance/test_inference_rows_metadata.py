"""Rows 46 to 48: who was considered, tried and chosen, for those who ask; and where it stands."""

from typing import Any

import pytest

from tests.conformance.desk import Desk
from tests.support.gateways import seed_account

ASKED = {"X-Router-Metadata": "enabled"}
REQUIRED = {"requested", "strategy", "region", "summary", "attempt", "is_byok", "endpoints"}


def selected(metadata: dict[str, Any]) -> list[dict[str, Any]]:
    return [each for each in metadata["endpoints"]["available"] if each["selected"]]


def test_metadata_has_every_required_field(desk: Desk) -> None:
    answer = desk.ok(model="acme/small", headers={"X-Router-Metadata": "ENABLED"})

    told = answer["router_metadata"]
    assert told.keys() == {*REQUIRED, "generation_time", "attempts"}
    assert (told["requested"], told["strategy"], told["region"]) == (
        *("acme/small", "direct", "local"),
    )
    assert told["endpoints"]["total"] == 3
    assert {each["provider"] for each in told["endpoints"]["available"]} == {"Alpha", "Beta"}
    assert [each["provider"] for each in selected(told)] == [answer["provider"]]
    assert told["summary"] == f"available=3, selected={answer['provider']}"
    assert (told["attempt"], told["is_byok"]) == (1, False)
    assert told["attempts"] == [
        {"provider": answer["provider"], "model": "acme/small", "status": 200}
    ]
    assert told["generation_time"] >= 0
    assert len(desk.upstream.requests()) == 1


@pytest.mark.parametrize("value", [None, "yes", "", "disabled", "1"])
def test_whoever_does_not_ask_in_the_right_word_is_told_nothing(
    desk: Desk, value: str | None
) -> None:
    headers = {} if value is None else {"X-Router-Metadata": value}

    assert "router_metadata" not in desk.ok(headers=headers)
    assert "router_metadata" not in desk.stream(headers=headers).chunks[-1]


def test_the_older_header_asks_as_well(desk: Desk) -> None:
    answer = desk.ok(headers={"X-Router-Experimental-Metadata": "enabled"})

    assert answer["router_metadata"].keys() >= REQUIRED


def test_a_404_says_who_was_considered_and_that_nobody_was_tried(desk: Desk) -> None:
    response = desk.post(model="acme/small", provider={"only": ["gamma"]}, headers=ASKED)

    assert response.status_code == 404
    body = response.json()
    told = body["router_metadata"]
    assert told["attempt"] == 0
    assert selected(told) == []
    # Those before the filter that left nobody.
    assert told["endpoints"]["total"] == 3
    assert not {"attempts", "generation_time"} & told.keys()
    metadata = body["error"]["metadata"]
    assert metadata["failed_routing_step"] == "Filter by Allowed Providers"
    assert metadata["available_providers"] == ["alpha", "beta"]
    assert metadata["requested_providers"] == ["gamma"]
    assert desk.upstream.requests() == []


def test_a_stream_tells_it_in_the_usage_chunk_and_nowhere_else(desk: Desk) -> None:
    chunks = desk.stream(headers=ASKED).chunks

    assert [number for number, chunk in enumerate(chunks) if "router_metadata" in chunk] == [
        len(chunks) - 1
    ]
    assert chunks[-1]["router_metadata"]["attempt"] == 1
    assert chunks[-1]["usage"]


@pytest.mark.parametrize("stream", [False, True])
def test_a_total_failure_tells_it_beside_the_error(desk: Desk, stream: bool) -> None:
    desk.upstream.script("gamma", {"status": 503})

    response = desk.post(stream=stream, headers=ASKED)

    assert response.status_code == 503
    told = response.json()["router_metadata"]
    assert told["attempts"] == [{"provider": "Gamma", "model": "acme/solo", "status": 503}]
    assert (told["attempt"], selected(told)) == (1, [])


@pytest.mark.parametrize(
    ("status", "body", "key"),
    [
        (401, {}, "sk-or-v1-nobody"),
        (400, {"messages": []}, None),
        (400, {"model": "nope/none"}, None),
        (413, {"messages": [{"role": "user", "content": "x" * (33 << 20)}]}, None),
    ],
)
def test_before_there_is_a_choice_nothing_is_told_of_it(
    desk: Desk, status: int, body: dict[str, Any], key: str | None
) -> None:
    headers = ASKED | ({"Authorization": f"Bearer {key}"} if key else {})

    response = desk.post(headers=headers, **body)

    assert response.status_code == status
    assert "router_metadata" not in response.json()


@pytest.mark.parametrize("wanted", [{}, {"provider": {"only": ["nobody"]}}])
def test_a_caller_without_money_is_told_who_was_considered(
    desk: Desk, wanted: dict[str, Any]
) -> None:
    poor = Desk(desk.server, desk.upstream, seed_account(desk.server, credits_usd="0"))

    response = poor.post(headers=ASKED, **wanted)

    assert response.status_code == 402
    assert response.json()["router_metadata"]["attempt"] == 0
