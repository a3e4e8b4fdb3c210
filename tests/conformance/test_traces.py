"""What a generation's record says of its routing, and what commands make of it."""

import json
from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from routing.selection.replay import rows_of
from tests.conformance.desk import Desk
from tests.support.server import GatewayServer

OrmOf = Callable[[GatewayServer], AbstractContextManager[None]]
SECRET = "what nobody else may read"


@pytest.fixture
def trace_of(orm_of: OrmOf) -> Callable[[Desk, str], Any]:
    """`trace_of(desk, generation_id)`: the stored trace."""

    def read(desk: Desk, generation_id: str) -> Any:
        from routing.metering.models import Generation

        with orm_of(desk.server):
            return json.loads(Generation.objects.get(pk=generation_id).trace)

    return read


def verdicts(trace: Any) -> dict[str, str]:
    return {row.tag: row.verdict for row in rows_of(trace)}


@pytest.mark.parametrize("stream", [False, True])
def test_an_answer_leaves_a_trace_of_every_candidate(
    desk: Desk, trace_of: Any, stream: bool
) -> None:
    response = desk.post(
        model="acme/small",
        stream=stream,
        session_id="a session",
        messages=[{"role": "user", "content": SECRET}],
        provider={"order": ["beta/turbo", "alpha"], "ignore": ["gamma"]},
        max_tokens=20,
    )
    assert response.status_code == 200
    assert response.content

    trace = trace_of(desk, response.headers["X-Generation-Id"])

    assert verdicts(trace) == {"beta/turbo": "chosen", "alpha": "in reserve", "beta": "in reserve"}
    assert (trace["requested"], trace["strategy"], trace["rule"]) == (
        *(["acme/small"], "direct", "order"),
    )
    assert trace["policy"] == {"order": ["beta/turbo", "alpha"], "ignore": ["gamma"]}
    assert trace["ask"]["supplied_parameters"] == ["max_tokens"]
    assert {row.tag: row.usd for row in rows_of(trace)}["beta/turbo"] == [5.0, 9.0]
    text = json.dumps(trace)
    assert SECRET not in text
    assert "a session" not in text
    assert "credential" not in text


@pytest.mark.parametrize("stream", [False, True])
def test_a_failure_leaves_one_too(desk: Desk, trace_of: Any, stream: bool) -> None:
    for persona in ("alpha", "beta"):
        desk.upstream.script(persona, {"status": 500}, repeat=True)

    response = desk.post(
        model="acme/small", stream=stream, provider={"only": ["beta"], "sort": "price"}
    )
    desk.upstream.clear()

    assert response.status_code == 502
    trace = trace_of(desk, response.headers["X-Generation-Id"])
    assert {row.tag: (row.verdict, row.why) for row in rows_of(trace)} == {
        "beta": ("failed", "provider_unavailable"),
        "beta/turbo": ("failed", "provider_unavailable"),
        "alpha": ("removed", "Filter by Allowed Providers"),
    }


def test_a_sort_of_the_callers_outlasts_one_failure_and_not_most(
    serve: Callable[..., Callable[[], Desk]], trace_of: Any
) -> None:
    desk = serve()()
    desk.model = "acme/small:floor"

    def first_tried() -> tuple[str, Any]:
        response = desk.post()
        assert response.status_code == 200
        trace = trace_of(desk, response.headers["X-Generation-Id"])
        return trace["tag"][0], trace

    desk.upstream.script("alpha", {"status": 500})
    for _ in range(2):
        tag, trace = first_tried()
        assert (tag, trace["rule"], trace["last"]) == ("alpha", "price", "failing")

    desk.upstream.script("alpha", {"status": 500}, repeat=True)
    tried = [first_tried()[0] for _ in range(5)]
    _, trace = first_tried()
    desk.upstream.clear()

    # One of two went well before; after the next failure it was one of three.
    assert tried == ["alpha", "beta", "beta", "beta", "beta"]
    standing = {row.tag: row.standing for row in rows_of(trace)}
    assert standing["alpha"] == ("unstable", "failing")
    told = desk.server.manage("route", "--model", "acme/small:floor")
    assert (told["rule"], told["last"]) == ("price", "failing")


def test_route_prints_the_order_and_explains_every_endpoint(desk: Desk) -> None:
    wanted = json.dumps({"sort": "price", "quantizations": ["bf16"]})

    told = desk.server.manage(
        *("route", "--model", "acme/small", "--provider-json", wanted, "--explain")
    )

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


def test_route_chooses_as_requests_do(desk: Desk) -> None:
    provider = {"order": ["beta"], "ignore": ["alpha"]}
    answer = desk.ok(model="acme/small", provider=provider, session_id="kept")

    told = desk.server.manage(
        *("route", "--model", "acme/small", "--provider-json", json.dumps(provider)),
        *("--session", "kept", "--key-hash", desk.account.api_key_hash),
    )

    assert told["order"][0]["provider"] == answer["provider"] == "Beta"


def test_route_with_a_seed_draws_the_same_again(serve: Callable[..., Callable[[], Desk]]) -> None:
    desk = serve()()

    def order(*options: str) -> list[str]:
        told = desk.server.manage("route", "--model", "acme/small", *options)
        return [each["tag"] for each in told["order"]]

    assert len({tuple(order("--seed", "3")) for _ in range(5)}) == 1
    assert {tuple(order("--seed", str(n))) for n in range(60)} > {("alpha", "beta", "beta/turbo")}


def test_route_says_what_left_nobody(desk: Desk) -> None:
    told = desk.server.manage(
        *("route", "--model", "acme/small", "--provider-json", '{"only": ["gamma"]}')
    )

    assert (told["order"], told["failed_step"]) == ([], "Filter by Allowed Providers")


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--model", "nope/none"], "not a valid model ID"),
        (["--model", "acme/small", "--provider-json", "{"], "--provider-json is no JSON"),
        (["--model", "acme/small", "--provider-json", "[]"], "--provider-json is no object"),
        (
            ["--model", "acme/small", "--provider-json", '{"foo": 1}'],
            'provider: Unrecognized key: "foo"',
        ),
        (["--model", "acme/small", "--body-json", "1"], "--body-json is no object"),
        (["--model", "acme/small", "--key-hash", "0"], "no key with that hash"),
    ],
)
def test_route_refuses_what_means_nothing(desk: Desk, arguments: list[str], problem: str) -> None:
    outcome = desk.server.run_command("route", *arguments, "--json")

    assert outcome.status == 1
    assert problem in outcome.json()["error"]


def test_a_person_reads_the_order(desk: Desk) -> None:
    wanted = ("--provider-json", '{"sort": "price"}', "--explain")

    outcome = desk.server.run_command("route", "--model", "acme/small", *wanted)

    assert outcome.stdout.splitlines()[:2] == [
        "strategy direct, rule price",
        "1. acme/small at alpha (Alpha)",
    ]
    assert "acme/small at beta: verdict would be tried; place 2" in outcome.stdout


def test_what_if_compares_a_period_with_another_policy(desk: Desk) -> None:
    since = datetime.now(UTC) - timedelta(seconds=1)
    paid = [
        desk.ok(model="acme/small", provider={"only": [tag], "order": [tag]}, max_tokens=9)
        for tag in ("alpha", "beta", "beta/turbo")
    ]
    desk.upstream.script("gamma", {"status": 500})
    assert desk.post().status_code == 502

    told = desk.server.manage(
        *("what_if", "--since", since.isoformat(), "--account", desk.account.account_id),
        *("--provider-json", '{"only": ["alpha", "beta"], "order": null, "sort": "price"}'),
    )

    assert (told["generations"], told["compared"], told["moved"]) == (4, 3, 2)
    assert told["not_replayed"] == {"it was not answered": 1}
    assert told["before"]["providers"] == {"Beta": 2, "Alpha": 1}
    assert told["after"]["providers"] == {"Alpha": 3}
    charged = float(sum(answer["usage"]["cost"] for answer in paid))
    assert told["before"]["cost"] == pytest.approx(charged)
    assert told["before"]["charged"] == pytest.approx(charged)
    assert told["after"]["cost"] < told["before"]["cost"]


def test_what_if_keeps_to_its_period_account_and_limit(desk: Desk) -> None:
    began = datetime.now(UTC)
    for _ in range(3):
        desk.ok()
    mine = ("--since", began.isoformat(), "--account", desk.account.account_id)

    def seen(*options: str) -> int:
        generations: int = desk.server.manage("what_if", *mine, *options)["generations"]
        return generations

    assert seen() == 3
    assert seen("--limit", "2") == 2
    assert seen("--until", began.isoformat()) == 0


def test_a_person_reads_the_comparison(desk: Desk) -> None:
    desk.ok()

    outcome = desk.server.run_command(
        *("what_if", "--since", "2026-01-01", "--account", desk.account.account_id),
        *("--provider-json", '{"ignore": ["gamma"]}'),
    )

    assert outcome.stdout.splitlines()[:2] == [
        "1 generations: 0 compared (0 would go elsewhere), 1 would be refused, 0 not replayed",
        "  refused, Filter by Ignored Providers: 1",
    ]


@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        (["--since", "yesterday"], 2),
        (["--since", "2026-01-01", "--account", "nobody"], 1),
        (["--since", "2026-01-01", "--provider-json", '{"sort": "luck"}'], 1),
    ],
)
def test_what_if_refuses_what_means_nothing(desk: Desk, arguments: list[str], status: int) -> None:
    assert desk.server.run_command("what_if", *arguments, "--json").status == status
