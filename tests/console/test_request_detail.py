"""The page of one request: what happened, what it cost, and where to go about a refused one."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from accounts.models import Guardrail
from console.queries.explanation import (
    describe_in_a_sentence,
    list_candidates,
    read_explanation,
)
from console.queries.request_detail import list_priced_tokens, list_stages
from gateway.http.jsonio import dumps
from routing.metering.models import Generation
from tests.console.people import Team, ask, make_team, refuse
from tests.console.things import make_guardrail, put_under
from tests.routing.test_admin_generations import TRACE

pytestmark = [pytest.mark.django_db, pytest.mark.both]


@pytest.fixture
def client(team: Team) -> Client:
    return team.client("admin")


def test_the_page_of_a_request_tells_what_happened(client: Client, team: Team) -> None:
    row = team.generations["own"]
    page = client.get(reverse("console:request", args=[row.pk])).text

    assert "First answered 503 in 3 ms; Second was next and answered in 3 ms; you paid" in page
    assert "$0.0000056 of $0.00001 held came back" in page
    # What callers send is text on the page.
    assert "&lt;script&gt;tester" in page


def attempt(name: str, status: int | None, latency: int, error: str | None = None) -> Any:
    return {"provider_name": name, "status": status, "latency": latency, "error_type": error}


@pytest.mark.parametrize(
    ("record", "rule", "sentence"),
    [
        (
            {
                "attempts": [
                    attempt("Simulated Thrifty", 503, 1, "provider_overloaded"),
                    attempt("Simulated Steady", 200, 62),
                ],
                "charge_nano": 4_400,
            },
            "price",
            "Thrifty answered 503 in 1 ms; Steady was next by price and answered in 62 ms; "
            "you paid $0.0000044.",
        ),
        (
            {"attempts": [attempt("Swift", 200, 1_200)], "streamed": True, "charge_nano": 10**9},
            "latency",
            "Swift was the first to begin an answer and began to answer in 1.2 s; you paid $1.00.",
        ),
        (
            {"attempts": [attempt("Swift", None, 30_000, "timeout")], "status": 504},
            "",
            "Swift did not answer in time in 30 s; no endpoint was left; you paid nothing.",
        ),
        ({"attempts": []}, "", "The answer came from the response cache; you paid nothing."),
    ],
)
def test_a_request_is_told_in_a_sentence(record: Any, rule: str, sentence: str) -> None:
    assert describe_in_a_sentence({"status": 200, "charge_nano": 0} | record, rule) == sentence


def test_who_was_not_asked_did_not_lose_to_an_answer() -> None:
    """A refusal and a total failure have nobody who answered."""
    asked = TRACE | {"chosen": None, "half_open": [], "probe": None}
    for attempts, why in (
        ([], "no provider was asked"),
        ([[0, "timeout"]], "the request ended before its turn"),
    ):
        explanation = read_explanation(dumps(asked | {"attempts": attempts}).decode())
        words = {each.why for each in list_candidates(explanation)}
        assert (why in words, "an earlier one answered" in words) == (True, False)


def test_the_waterfall_begins_with_plan_and_hold() -> None:
    attempt = {"status": 200, "provider_name": "Steady", "latency": 40, "error_type": None}
    record = Generation(
        detail={"plan_us": 2_500, "hold_us": 1_500}, attempts=[attempt], generation_time_ms=100
    )
    record.tokens_completion = 9

    stages = [(stage.label, stage.start_ms, stage.length_ms) for stage in list_stages(record)]

    assert stages == [
        ("Plan", 0, 2.5),
        ("Hold", 2.5, 1.5),
        ("Steady", 4, 40),
        ("Rest of the answer", 44, 60),
    ]


def test_the_waterfall_ends_when_the_charge_went_to_the_ledger() -> None:
    began = datetime.now(UTC)
    record = Generation(
        created_at=began, detail={"plan_us": 2_000}, attempts=[], generation_time_ms=100
    )
    record.charge_nano = 4_400

    *_, last = list_stages(record, began + timedelta(milliseconds=130))

    assert (last.label, last.start_ms, last.length_ms) == ("Settle", 102, 30)
    assert "$0.0000044" in last.note


BROKEN = {**attempt("Thrifty", 502, 50, "provider_unavailable"), "broke_off_ms": 1_200}


def test_a_stream_that_broke_off_is_drawn_until_it_broke() -> None:
    record = Generation(
        attempts=[BROKEN, attempt("Steady", 200, 62)], generation_time_ms=1_400, streamed=True
    )
    record.tokens_completion = 9

    stages = [(stage.label, stage.length_ms, stage.tone) for stage in list_stages(record)]

    assert stages == [
        ("Thrifty", 50, "good"),
        ("Thrifty", 1_150, "bad"),
        ("Steady", 62, "good"),
        ("Rest of the answer", 138, "plain"),
    ]
    assert list_stages(record)[1].note == "broke off after 1.2 s"


def test_a_rescued_stream_s_page_names_the_parts(client: Client, team: Team) -> None:
    leg = {
        "endpoint": "thrifty/one",
        "model": "acme/one",
        "tokens_prompt": 12,
        "tokens_completion": 345,
        "cost_nano": 77_000,
    }
    row = ask(
        team.keys["own"],
        "gen-rescued",
        streamed=True,
        attempts=[BROKEN, attempt("Steady", 200, 62)],
        detail={"rescued_from": [leg]},
    )
    path = reverse("console:request", args=[row.pk])

    page = client.get(path).text

    told = "Thrifty began to answer in 50 ms and broke off after 1.2 s; Steady was next and began"
    assert f"{told} the rest of the answer in 62 ms" in page
    assert "thrifty/one" in page
    assert "345 out" in page
    # What a provider charges is for operators.
    assert "$0.000077" not in page
    assert "$0.000077" in team.client("operator").get(path).text


def test_the_page_of_a_request_tells_who_else_looked_and_whether_the_schema_fits(
    client: Client, team: Team
) -> None:
    look = {"guard": "decision", "on": "input", "result": "passed", "latency_ms": 142}
    detail = {"guards": [look | {"generation_id": "dec-1"}], "schema": {"result": "repaired"}}
    row = ask(team.keys["own"], "gen-looked-at", detail=detail)

    page = client.get(reverse("console:request", args=[row.pk])).text

    assert "decision of input: passed (142 ms, dec-1)" in page
    assert "repaired" in page


def guard_step(guardrail: Guardrail, action: str, **more: Any) -> dict[str, Any]:
    step = {"id": str(guardrail.pk), "scope": "api_key", "action": action, "matches": 3}
    return {**step, "detected": ["EMAIL"], **more}


def test_the_page_of_a_request_tells_what_guardrails_did(client: Client, team: Team) -> None:
    mine, theirs = (
        make_guardrail(each.led, name)
        for each, name in ((team, "no addresses"), (make_team("theirs"), "not ours"))
    )
    steps = [
        guard_step(mine, "redacted"),
        guard_step(theirs, "would be blocked", detected=["PHONE"]),
        guard_step(mine, "flagged", id=None),
    ]
    trace = TRACE | {"guardrails": steps}
    row = ask(team.keys["own"], "gen-guarded", trace=dumps(trace).decode())
    path = reverse("console:request", args=[row.pk])
    link = reverse("console:guardrail", args=[mine.pk])

    page = client.get(path).text

    assert (link in page, "no addresses" in page, "redacted" in page) == (True, True, True)
    assert ("would be blocked" in page, "PHONE" in page, "not ours" in page) == (True, True, False)
    # Who leads nothing may not open the guardrail.
    own = team.client("member").get(path).text
    assert ("no addresses" in own, link in own) == (True, False)


@pytest.mark.parametrize(
    ("role", "reason", "page"),
    [
        ("member", "key_limit", "key"),
        ("lead", "key_requests", "key"),
        ("lead", "workspace_budget", "workspace"),
        ("member", "workspace_budget", ""),
        ("lead", "content_filter", "guardrail"),
        ("member", "content_filter", ""),
        ("admin", "guardrail", "settings"),
        ("admin", "credits", "credits"),
        ("member", "credits", ""),
        ("member", "unknown_model", "models"),
    ],
)
def test_a_refusal_leads_to_what_refused(team: Team, role: str, reason: str, page: str) -> None:
    key = team.keys["own"]
    guardrail = make_guardrail(team.led, "strict")
    put_under(guardrail, key)
    places: dict[str, list[Any]] = {
        "key": [key.pk], "workspace": [key.workspace_id], "guardrail": [guardrail.pk],
        "settings": [], "credits": [], "models": [],
    }  # fmt: skip
    row = refuse(key, reason=reason)

    text = team.client(role).get(reverse("console:refused", args=[row.pk])).text

    links = {
        name for name, args in places.items()
        if f'class="button" href="{reverse(f"console:{name}", args=args)}"' in text
    }  # fmt: skip
    # An admin is led to the guardrail as well.
    assert links - ({"guardrail"} if reason == "guardrail" else set()) == ({page} - {""})


def test_tokens_and_pieces_stand_with_the_prices_that_they_were_charged_by(team: Team) -> None:
    pricing = {
        "prompt": "0.000002",
        "completion": "0.000004",
        "input_cache_read": "0",
        "audio_output": "0.00001",
        "request": "0.001",
        "web_search": "0.01",
        "discount": "0.25",
    }
    record = ask(
        team.keys["own"],
        "gen-priced",
        tokens_prompt=100,
        tokens_cached=40,
        tokens_completion=30,
        tokens_reasoning=10,
        detail={
            "pricing": pricing,
            "cache_write_tokens": 20,
            "completion_audio_tokens": 5,
            "web_searches": 2,
            "images": 1,
        },
    )

    assert [tuple(row) for row in list_priced_tokens(record)] == [
        ("Prompt", "40", "$2.00"),
        # Free, which is not the same as without a price of its own.
        ("Prompt, from the provider's cache", "40", "free"),
        ("Prompt, written to its cache", "20", "$2.00"),
        ("Answer", "15", "$4.00"),
        ("Reasoning", "10", "$4.00"),
        ("Audio of the answer", "5", "$10.00"),
        ("Request", "1", "$0.001 each"),
        ("Web searches", "2", "$0.01 each"),
        ("Discount", "", "25 % less"),
    ]
