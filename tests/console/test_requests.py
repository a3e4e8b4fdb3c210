"""The list of requests: order, cursor, filters, CSV; and the page of one."""

import csv
import io
import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from accounts.models import Guardrail
from accounts.services.guardrail_assignments import assign_keys
from accounts.services.guardrails import create_guardrail
from accounts.services.records import SYSTEM
from console.queries.explanation import tell_in_a_sentence
from console.queries.request_detail import list_priced_tokens, list_stages
from console.words import plain_value
from gateway.http.jsonio import dumps
from routing.catalogue.models import Model, Provider
from routing.catalogue.snapshot import catalogue
from routing.metering.models import Generation
from routing.reports.models import FailedRequest
from tests.console.people import Team, ask, make_team, refuse
from tests.routing.test_admin_generations import TRACE
from tests.support.operations import endpoint

pytestmark = [pytest.mark.django_db, pytest.mark.both]
FIRST = {"gen-acme-own", "gen-acme-led", "gen-acme-far"}


@pytest.fixture
def team() -> Team:
    return make_team("acme")


@pytest.fixture
def client(team: Team) -> Client:
    return team.client("admin")


def list_ids(text: str) -> list[str]:
    return re.findall(r'href="/console/requests/([^"?]+)"', text)


def read_all_pages(client: Client, **query: str) -> list[str]:
    found, path = [], reverse("console:requests")
    page = client.get(path, query).text
    while True:
        found += list_ids(page)
        more = re.search(r'rel="next" href="([^"]+)"', page)
        if not more:
            return found
        page = client.get(path + more[1].replace("&amp;", "&")).text


@pytest.mark.parametrize("order", ["-time", "time", "-cost", "cost", "-duration", "duration"])
def test_pages_have_every_request_once_in_order(client: Client, team: Team, order: str) -> None:
    key = team.keys["own"]
    for number in range(58):
        # Many are alike, so that pages end between equal ones.
        ago = timedelta(seconds=number // 10 + 5)
        alike = {"charge_nano": number // 20, "generation_time_ms": number // 20 or None}
        ask(key, f"gen-many-{number:02}", ago=ago, **alike)
        refuse(key, ago=ago, duration_ms=number // 20)

    found = read_all_pages(client, order=order)

    assert (len(found), len(set(found))) == (58 * 2 + 6, 58 * 2 + 6)
    if order == "-time":
        assert found.index("gen-many-00") < found.index("gen-many-57")
    if order == "-cost":
        assert set(found[:3]) == FIRST


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({"outcome": "failed"}, {"gen-bad"}),
        ({"outcome": "cancelled"}, {"gen-left"}),
        ({"outcome": "retried"}, FIRST),
        ({"model": "OTHER"}, {"gen-bad"}),
        ({"provider": "second", "outcome": "answered"}, FIRST),
        ({"text": "gen-bad"}, {"gen-bad"}),
        ({"text": "session-1"}, {"gen-left"}),
        ({"key": "no number"}, set()),
        ({"status": "503"}, {"gen-bad"}),
        ({"status": "402"}, {"refused own", "refused led", "refused far"}),
        ({"status": "no number"}, set()),
        ({"reason": "key_limit"}, {"refused own", "refused led", "refused far"}),
        ({"reason": "budget"}, set()),
        ({"person": "admin"}, FIRST - {"gen-acme-own"} | {"refused led", "refused far"}),
        ({"person": "lead"}, set()),
    ],
)
def test_filters_narrow_the_list(
    client: Client, team: Team, query: dict[str, str], expected: set[str]
) -> None:
    key, attempts = team.keys["own"], [{"status": 503, "provider_name": "First"}]
    ask(key, "gen-bad", status=503, model="acme/other", attempts=attempts)
    ask(key, "gen-left", cancelled=True, session_id="session-1", attempts=attempts)

    names = {f"refused/{row.pk}": f"refused {name}" for name, row in team.refused.items()}
    if person := query.get("person"):
        query = {"person": team.people[person].public_id}
    assert {names.get(each, each) for each in read_all_pages(client, **query)} == expected


def test_a_person_of_another_tenant_has_no_requests_here(client: Client) -> None:
    strangers = make_team("theirs")

    for role in ("member", "admin", "operator"):
        assert not read_all_pages(client, person=strangers.people[role].public_id)


def test_an_answered_request_is_found_by_its_request_id(client: Client, team: Team) -> None:
    ask(team.keys["own"], "gen-own-id", detail={"request_id": "of-the-caller"})
    ask(make_team("theirs").keys["own"], "gen-theirs", detail={"request_id": "of-theirs"})

    assert read_all_pages(client, text="of-the-caller") == ["gen-own-id"]
    assert read_all_pages(client, text="of-theirs") == []


def test_what_the_url_cannot_mean_is_left_out(client: Client) -> None:
    odd = {"order": "nonsense", "cursor": "nonsense~asked~y", "period": "nonsense"}

    assert len(read_all_pages(client, **odd)) == 6


def test_refused_ones_are_found_by_their_request_id(client: Client, team: Team) -> None:
    row = team.refused["own"]

    assert read_all_pages(client, text=row.request_id) == [f"refused/{row.pk}"]
    page = client.get(reverse("console:refused", args=[row.pk])).text
    assert "limit is reached" in page
    assert "you paid nothing" in page


@pytest.mark.parametrize("tag", ["team=blue", "team"])
def test_requests_are_found_by_a_tag(client: Client, team: Team, tag: str) -> None:
    ask(team.keys["own"], "gen-tagged", detail={"tags": {"team": "blue"}})
    ask(team.keys["own"], "gen-other", detail={"tags": {"step": "blue"}})
    FailedRequest.objects.filter(pk=team.refused["own"].pk).update(tags={"team": "blue"})

    found = read_all_pages(client, tag=tag)

    assert set(found) == {"gen-tagged", f"refused/{team.refused['own'].pk}"}


def test_a_csv_has_the_list_with_money_in_full(client: Client, team: Team) -> None:
    ask(team.keys["own"], "gen-odd", external_user="=1+1")

    answer = client.get(reverse("console:requests"), {"csv": "1", "text": "gen-odd"})

    (row,) = csv.DictReader(io.StringIO(answer.text))
    assert answer["Content-Type"].startswith("text/csv")
    assert (row["Id"], row["Cost (USD)"], row["Duration (ms)"]) == ("gen-odd", "0.0000044", "90")
    assert row["End user"] == "'=1+1"


def test_an_empty_list_says_what_to_do(client: Client) -> None:
    page = client.get(reverse("console:requests"), {"model": "nothing"}).text

    assert "Clear the search" in page


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
    assert tell_in_a_sentence({"status": 200, "charge_nano": 0} | record, rule) == sentence


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


def guarded(guardrail: Guardrail, action: str, **more: Any) -> dict[str, Any]:
    step = {"id": str(guardrail.pk), "scope": "api_key", "action": action, "matches": 3}
    return {**step, "detected": ["EMAIL"], **more}


def test_the_page_of_a_request_tells_what_guardrails_did(client: Client, team: Team) -> None:
    mine, theirs = (
        create_guardrail(
            account_id=each.account.pk,
            workspace_id=each.account.workspaces.get(slug="led").pk,
            by=SYSTEM,
            settings={"name": name},
        )
        for each, name in ((team, "no addresses"), (make_team("theirs"), "not ours"))
    )
    steps = [
        guarded(mine, "redacted"),
        guarded(theirs, "would be blocked", detected=["PHONE"]),
        guarded(mine, "flagged", id=None),
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


def test_a_lost_request_is_lost_everywhere(client: Client, team: Team) -> None:
    row = ask(team.keys["own"], "gen-lost", lost=True, attempts=[])

    assert set(read_all_pages(client, outcome="lost")) == {"gen-lost"}
    for outcome in ("answered", "retried", "failed", "cancelled"):
        assert "gen-lost" not in read_all_pages(client, outcome=outcome)
    page = client.get(reverse("console:request", args=[row.pk])).text
    assert ">lost<" in page
    assert "the gateway stopped before the request was booked".casefold() in page.casefold()


def test_a_model_s_id_finds_that_model_alone(client: Client, team: Team) -> None:
    provider = Provider.objects.create(slug="acme", name="Acme", base_url="https://a.example")
    for slug in ("acme/one", "acme/one-mini"):
        model = Model.objects.create(slug=slug, canonical_slug=slug, name=slug, created=1)
        endpoint(model, provider)
    catalogue.forget()
    ask(team.keys["own"], "gen-mini", model="acme/one-mini")

    assert "gen-mini" not in read_all_pages(client, model="acme/one")
    assert "gen-mini" in read_all_pages(client, model="acme/on")


@pytest.mark.parametrize(
    ("value", "cell"), [("-1+1", "'-1+1"), (" =1", "' =1"), (-1.5, "-1.5"), ("plain", "plain")]
)
def test_words_in_a_csv_are_no_formulas(value: Any, cell: str) -> None:
    assert plain_value(value) == cell


def test_a_row_tells_in_a_sentence_why_it_took_more_than_one_attempt(
    client: Client, team: Team
) -> None:
    attempts = [attempt("Simulated Thrifty", 503, 1), attempt("Simulated Steady", 200, 62)]
    ask(team.keys["own"], "gen-twice", model="acme/twice", attempts=attempts)
    ask(team.keys["own"], "gen-once", model="acme/once", attempts=attempts[1:])
    told = (
        "Thrifty answered 503 in 1 ms; Steady was next and answered in 62 ms; you paid $0.0000044."
    )

    path = reverse("console:requests")
    assert told in client.get(path, {"model": "acme/twice"}).text
    assert "you paid" not in client.get(path, {"model": "acme/once"}).text
    assert told in client.get(path, {"model": "acme/twice", "csv": "1"}).text


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
    guardrail = create_guardrail(
        account_id=team.account.pk,
        workspace_id=key.workspace_id,
        by=SYSTEM,
        settings={"name": "strict"},
    )
    assign_keys(
        account_id=team.account.pk,
        guardrail_id=guardrail.pk,
        by=SYSTEM,
        assigner=team.people["admin"].pk,
        key_hashes=[key.hash],
    )
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
