"""What a generation's record says of its routing, and what commands make of it."""

import json
from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from routing.selection.replay import read_rows
from tests.conformance.desk import Desk
from tests.support.server import GatewayServer

OrmOf = Callable[[GatewayServer], AbstractContextManager[None]]
SECRET = "what nobody else may read"
SMALL = "acme/small"


@pytest.fixture
def desk(own_wide_desk: Desk) -> Desk:
    return own_wide_desk


@pytest.fixture
def trace_of(orm_of: OrmOf) -> Callable[[Desk, str], Any]:
    """`trace_of(desk, generation_id)`: the stored trace."""

    def read(desk: Desk, generation_id: str) -> Any:
        from routing.metering.models import Generation

        with orm_of(desk.server):
            return json.loads(Generation.objects.get(pk=generation_id).trace)

    return read


@pytest.mark.parametrize("stream", [False, True])
def test_answers_and_failures_leave_a_trace_of_every_candidate(
    desk: Desk, trace_of: Any, stream: bool
) -> None:
    policy = {"order": ["beta/turbo", "alpha"], "ignore": ["gamma"]}
    asked: dict[str, Any] = {"model": SMALL, "stream": stream, "session_id": "a session"}
    asked |= {"messages": [{"role": "user", "content": SECRET}], "max_tokens": 20}
    response = desk.post(**asked, provider=policy)
    assert (response.status_code, bool(response.content)) == (200, True)

    trace = trace_of(desk, response.headers["X-Generation-Id"])

    rows = {row.tag: row for row in read_rows(trace)}
    verdicts = {"beta/turbo": "chosen", "alpha": "in reserve", "beta": "in reserve"}
    assert {tag: row.verdict for tag, row in rows.items()} == verdicts
    assert (trace["requested"], trace["strategy"], trace["rule"]) == ([SMALL], "direct", "order")
    assert trace["policy"] == policy
    assert trace["ask"]["supplied_parameters"] == ["max_tokens"]
    assert rows["beta/turbo"].usd == [5.0, 9.0]
    text = json.dumps(trace)
    assert not any(secret in text for secret in (SECRET, "a session", "credential"))

    desk.upstream.script("beta", {"status": 500}, repeat=True)
    failed = desk.post(model=SMALL, stream=stream, provider={"only": ["beta"], "sort": "price"})
    assert failed.status_code == 502
    trace = trace_of(desk, failed.headers["X-Generation-Id"])
    assert {row.tag: (row.verdict, row.why) for row in read_rows(trace)} == {
        "beta": ("failed", "provider_unavailable"),
        "beta/turbo": ("failed", "provider_unavailable"),
        "alpha": ("removed", "Filter by Allowed Providers"),
    }


def test_route_prints_the_order_and_explains_every_endpoint(desk: Desk) -> None:
    wanted = json.dumps({"sort": "price", "quantizations": ["bf16"]})

    told = desk.server.manage(*("route", "--model", SMALL, "--provider-json", wanted, "--explain"))

    assert [each["tag"] for each in told["order"]] == ["beta", "beta/turbo"]
    assert (told["strategy"], told["rule"], told["failed_step"]) == ("direct", "price", None)
    assert [(each["tag"], each["verdict"], each.get("step")) for each in told["endpoints"]] == [
        ("beta", "would be tried", None),
        ("beta/turbo", "would be tried", None),
        ("alpha", "removed", "Filter by Quantization"),
    ]
    assert told["endpoints"][0]["usd_per_million"] == [2.0, 4.0]
    assert told["policy"] == {"sort": "price", "sort_named": True, "quantizations": ["bf16"]}
    assert desk.upstream.requests() == []
    nobody = desk.server.manage("route", "--model", SMALL, "--provider-json", '{"only": ["gamma"]}')
    assert (nobody["order"], nobody["failed_step"]) == ([], "Filter by Allowed Providers")
    price = ("--provider-json", '{"sort": "price"}', "--explain")
    lines = desk.server.run_command("route", "--model", SMALL, *price).stdout
    assert lines.splitlines()[:2] == [
        *("strategy direct, rule price", "1. acme/small at alpha (Alpha)")
    ]
    assert "acme/small at beta: verdict would be tried; place 2" in lines


def test_route_chooses_as_requests_do_and_with_a_seed_the_same_again(desk: Desk) -> None:
    provider = {"order": ["beta"], "ignore": ["alpha"]}
    answer = desk.ok(model=SMALL, provider=provider, session_id="kept")

    def order(*options: str) -> list[Any]:
        return list(desk.server.manage("route", "--model", SMALL, *options)["order"])

    own = ("--session", "kept", "--key-hash", desk.account.api_key_hash)
    asked = order("--provider-json", json.dumps(provider), *own)
    assert asked[0]["provider"] == answer["provider"] == "Beta"

    def draw_tags(seed: int) -> tuple[str, ...]:
        return tuple(each["tag"] for each in order("--seed", str(seed)))

    assert len({draw_tags(3) for _ in range(3)}) == 1
    assert len({draw_tags(seed) for seed in range(30)}) > 1


def test_route_refuses_what_means_nothing(gateway: GatewayServer) -> None:
    small = ("--model", SMALL)
    refused: list[tuple[tuple[str, ...], str]] = [
        (("--model", "nope/none"), "not a valid model ID"),
        ((*small, "--provider-json", "[]"), "--provider-json is no object"),
        ((*small, "--provider-json", '{"foo": 1}'), 'provider: Unrecognized key: "foo"'),
        ((*small, "--key-hash", "0"), "no key with that hash"),
    ]
    for arguments, problem in refused:
        outcome = gateway.run_command("route", *arguments, "--json")
        assert outcome.status == 1
        assert problem in outcome.json()["error"]


def test_the_api_replays_the_requests_of_a_period(desk: Desk) -> None:
    for tag in ("beta", "beta/turbo"):
        desk.ok(model=SMALL, provider={"only": [tag], "order": [tag]}, max_tokens=9)
    since = (datetime.now(UTC) - timedelta(hours=1)).isoformat()
    by_price = {"only": ["alpha", "beta"], "order": None, "sort": "price"}
    cheap_beta = {"model": SMALL, "provider": "beta", "prompt": 0, "completion": 0}

    asked = {"since": since, "provider": by_price}
    found = desk.manage("POST", "/routing/what-if", asked).json()["data"]
    assert (found["compared"], found["moved"]) == (2, 2)
    assert found["after"]["providers"] == {"Alpha": 2}
    (key,) = found["keys"]
    assert (key["key_hash"], key["requests"]) == (desk.account.api_key_hash, 2)
    assert key["cost_after"] < key["cost_before"] == found["before"]["cost"]
    given_away = desk.manage("POST", "/routing/what-if", {**asked, "prices": [cheap_beta]})
    assert given_away.json()["data"]["after"]["cost"] == 0
    ignoring = {"ignored_providers": ["alpha", "beta", "gamma"]}
    refused = desk.manage("POST", "/routing/what-if", {"since": since, **ignoring}).json()["data"]
    assert (refused["compared"], sum(refused["refused"].values())) == (0, 2)

    guardrail = {"name": "Alpha only", "allowed_providers": ["alpha"]}
    made = desk.manage("POST", "/guardrails", guardrail).json()["data"]["id"]
    asked = {"since": since, "guardrail_id": made, "provider": {"only": None, "order": None}}
    guarded = desk.manage("POST", "/routing/what-if", asked).json()["data"]
    assert guarded["after"]["providers"] == {"Alpha": 2}


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ({"since": "2026-01-02T00:00:00Z", "until": "2026-01-01T00:00:00Z"}, "until"),
        ({"provider": {"sort": "luck"}}, "provider.sort"),
        ({"prices": [{"model": SMALL, "provider": "nobody", "prompt": 1}]}, "prices.0"),
        ({"guardrail_id": "00000000-0000-4000-8000-000000000000"}, "guardrail_id"),
        ({"workspace_id": "00000000-0000-4000-8000-000000000000"}, "workspace_id"),
        ({"limit": 5001}, "limit"),
    ],
)
def test_the_api_refuses_a_what_if_that_means_nothing(
    desk: Desk, body: dict[str, Any], problem: str
) -> None:
    answer = desk.manage("POST", "/routing/what-if", body)
    assert answer.status_code == 400
    assert problem in answer.text


def test_what_if_refuses_what_means_nothing(gateway: GatewayServer) -> None:
    for arguments, status in (
        (["--since", "yesterday"], 2),
        (["--since", "2026-01-01", "--account", "nobody"], 1),
    ):
        assert gateway.run_command("what_if", *arguments, "--json").status == status


def test_the_route_of_a_refused_request_is_found_by_its_request_id(desk: Desk) -> None:
    request_id = desk.post(model=SMALL, provider={"only": ["nobody"]}).headers["X-Request-Id"]

    desk.server.wait_until(
        lambda: desk.manage("GET", f"/generation/{request_id}/route").status_code == 200
    )

    data = desk.manage("GET", f"/generation/{request_id}/route").json()["data"]
    assert {each["would_have_won"]["setting"] for each in data["endpoints"]} == {"provider.only"}
