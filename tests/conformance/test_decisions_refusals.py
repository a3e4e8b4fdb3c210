"""Every status that callers of decisions can meet, and what each of them costs."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from gateway.limits import MINUTE_S
from tests.conformance.deciding import CHOICE, DECISIONS, NOUL, STATE, SYSTEMONE, DecisionsDesk
from tests.support.gateways import seed_account
from tests.support.server import GatewayServer, as_json
from tests.support.windows import within_one

pytestmark = pytest.mark.thorough

ASKED = {"X-Router-Metadata": "enabled"}
ONE = {"order": ["native-a"], "allow_fallbacks": False}
# A fault of the upstream, and what its caller is told.
FAULTS = {
    "400": (400, "invalid_request"),
    "400-context-length": (400, "context_length_exceeded"),
    "401": (502, "provider_unavailable"),
    "402": (502, "provider_unavailable"),
    "403": (502, "provider_unavailable"),
    "403-policy": (403, "content_policy_violation"),
    "404": (404, "not_found"),
    "408": (524, "timeout"),
    "413": (413, "payload_too_large"),
    "429": (429, "rate_limit_exceeded"),
    "500": (502, "provider_unavailable"),
    "502": (502, "provider_unavailable"),
    "503": (503, "provider_overloaded"),
    "504": (524, "timeout"),
    "529": (529, "provider_overloaded"),
    "html": (502, "provider_unavailable"),
    "truncated-json": (502, "provider_unavailable"),
    "empty-body": (502, "provider_unavailable"),
    "empty-choices": (502, "provider_unavailable"),
    "reset": (502, "provider_unavailable"),
}
OrmOf = Callable[[GatewayServer], AbstractContextManager[None]]


@pytest.mark.parametrize(("fault", "told"), FAULTS.items(), ids=list(FAULTS))
def test_what_a_provider_refuses(
    deciding: DecisionsDesk, fault: str, told: tuple[int, str]
) -> None:
    deciding.upstream.script("native-a", {"fault": fault}, repeat=True)

    response = deciding.post(provider=ONE, headers=ASKED)

    error = deciding.told(response, *told)
    assert error["metadata"]["provider_name"] == "TypeSafe"
    assert response.headers["X-Generation-Id"].startswith("gen-dec-")
    assert as_json(response)["router_metadata"]["attempt"] == 1
    record = deciding.generation(response.headers["X-Generation-Id"])
    assert (record["api_type"], record["total_cost"]) == ("decisions", 0)
    assert deciding.total_usage_nano() == 0


@pytest.mark.parametrize(
    ("detail", "status", "error_type"),
    [
        ([{"loc": ["body", "questions", "q", "criteria"], "msg": "bad"}], 400, "invalid_request"),
        ([{"loc": ["body", "odd"], "msg": "Extra inputs"}], 502, "provider_unavailable"),
        ("No such question", 400, "invalid_request"),
        # It quotes what it was sent.
        (
            [{"loc": ["body", "odd"], "msg": "Extra", "input": {"questions": {"q": NOUL}}}],
            *(502, "provider_unavailable"),
        ),
    ],
)
def test_a_422_is_the_callers_where_it_blames_a_question(
    deciding: DecisionsDesk, detail: Any, status: int, error_type: str
) -> None:
    step = {"status": 422, "json": {"detail": detail}}
    deciding.upstream.script("native-a", step, repeat=True)

    deciding.told(deciding.post(provider=ONE), status, error_type)


def test_a_422_of_a_chat_provider_is_never_the_callers(deciding: DecisionsDesk) -> None:
    step = {"status": 422, "json": {"detail": "bad question"}}
    deciding.upstream.script("judge-a", step, repeat=True)

    response = deciding.post(model="acme/judge", provider={"only": ["judge-a"]})

    deciding.told(response, 502, "provider_unavailable")


def test_a_422_that_blames_nobody_goes_on_to_the_next_endpoint(deciding: DecisionsDesk) -> None:
    deciding.upstream.script("native-a", {"status": 422, "json": {"detail": "odd"}})

    deciding.paid(deciding.post(provider={"order": ["native-a", "native-b"]}))


def blaming(name: str) -> dict[str, Any]:
    detail = [{"loc": ["body", "questions", name, "criteria"], "msg": "too odd"}]
    return {"status": 422, "json": {"detail": detail}}


def test_a_question_that_is_blamed_is_named(deciding: DecisionsDesk) -> None:
    deciding.upstream.script("native-a", blaming("q"), repeat=True)

    error = deciding.told(deciding.post(provider=ONE), 400, "invalid_request")

    assert error["message"] == "questions.q.criteria: too odd"


@pytest.mark.parametrize("blamed", ["0", "1"])
@pytest.mark.parametrize("status", [400, 422])
def test_a_part_that_the_gateway_made_is_not_the_callers_fault(
    deciding: DecisionsDesk, status: int, blamed: str
) -> None:
    step = blaming(blamed) | {"status": status}
    deciding.upstream.script("small-native", step, repeat=True)
    # Of six options this provider takes four at a time; a number is a name like any other.
    labels = {f"label {n}": None for n in range(6)}
    questions = {"1": NOUL, "team": {**CHOICE, "criteria": labels}}

    response = deciding.post(model="acme/small-native", questions=questions)

    if blamed == "1":
        error = deciding.told(response, 400, "invalid_request")
        assert error["message"] == "questions.1.criteria: too odd"
    else:
        error = deciding.told(response, 502, "provider_unavailable")
        assert error["message"] == "Provider returned error"


def test_another_provider_may_take_what_one_could_not_in_parts(deciding: DecisionsDesk) -> None:
    deciding.upstream.script("small-native", blaming("0"), repeat=True)
    labels = {f"label {n}": None for n in range(6)}

    deciding.answers({"q": {**CHOICE, "criteria": labels}}, model="acme/two-sizes")

    assert [entry["persona"] for entry in deciding.upstream.requests()][-1] == "native-b"


@pytest.mark.parametrize(("count", "told"), [(3, 400), (4, 502)])
def test_too_many_questions_are_the_callers_unless_the_gateway_chose_how_many(
    deciding: DecisionsDesk, count: int, told: int
) -> None:
    step = {"status": 422, "json": {"detail": [{"loc": ["body", "questions"], "msg": "many"}]}}
    deciding.upstream.script("small-native", step, repeat=True)

    response = deciding.post(
        model="acme/small-native", questions={f"q{n}": NOUL for n in range(count)}
    )

    assert response.status_code == told, response.text


@pytest.mark.parametrize("path", [DECISIONS, SYSTEMONE])
def test_nobody_is_asked_for_strangers(deciding: DecisionsDesk, path: str) -> None:
    body = {"model": "typesafe/jev-1.13", "state": STATE, "questions": {"q": NOUL}}

    for key in ("", "sk-rt-v1-nobody", deciding.account.management_key):
        response = deciding.server.post(path, key=key, json=body)
        assert response.status_code == 401, response.text
        assert as_json(response)["error"]["metadata"]["error_type"] == "authentication"
    assert deciding.server.get(path, key=deciding.account.api_key).status_code == 405
    assert deciding.upstream.requests() == []


def test_who_has_nothing_left_is_told_before_anything_is_sent(deciding: DecisionsDesk) -> None:
    broke = seed_account(deciding.server, credits_usd="0")
    desk = DecisionsDesk(deciding.server, deciding.upstream, broke, "typesafe/jev-1.13")

    error = desk.refused(402, "payment_required")

    assert error["metadata"]["limit_source"] == "router_credits"
    assert desk.post(model="acme/free").status_code == 200


def test_the_estimate_is_of_all_calls_together(deciding: DecisionsDesk) -> None:
    # One question costs some 600 bytes at the most, a millionth of a dollar each.
    poor = seed_account(deciding.server, credits_usd="0.005")
    desk = DecisionsDesk(deciding.server, deciding.upstream, poor, "acme/judge")
    order = {"only": ["judge-a"]}
    questions = {f"q{n}": {**NOUL, "instructions": "x" * 500} for n in range(20)}

    error = desk.refused(402, "payment_required", questions=questions, provider=order)
    assert error["metadata"]["reason"] == "weight_exceeds_budget"

    desk.paid(desk.post(questions={"q": NOUL}, provider=order))


def test_no_endpoint_is_left(deciding: DecisionsDesk) -> None:
    error = deciding.refused(404, "not_found", provider={"only": ["judge-a"]})

    assert error["metadata"]["failed_routing_step"] == "Filter by Allowed Providers"
    assert error["metadata"]["available_providers"] == ["native-a", "native-b"]


def test_a_body_that_is_none(deciding: DecisionsDesk) -> None:
    for body in (b"", b"[1]", b"{", b'{"state": NaN}'):
        deciding.check_refused(deciding.raw(body), 400, "invalid_request")


def test_a_body_that_is_too_large_and_a_request_that_takes_too_long(
    serve_deciding: Callable[..., DecisionsDesk],
) -> None:
    desk = serve_deciding(ROUTER_MAX_BODY_BYTES="2000", ROUTER_TOTAL_TIMEOUT="0.5")

    desk.refused(413, "payload_too_large", state="x" * 2000)
    for model in ("typesafe/jev-1.13", "acme/judge"):
        for persona in ("native-a", "native-b", "judge-a", "judge-b"):
            desk.upstream.script(persona, {"gate": "never"}, repeat=True)
        response = desk.post(model=model, questions={f"q{n}": NOUL for n in range(12)})
        error = desk.told(response, 524, "timeout")
        assert error["message"] == "Operation timed out. Please try again later."
        desk.upstream.clear()


def test_requests_and_their_tokens_are_counted_over_all_calls(
    serve_deciding: Callable[..., DecisionsDesk],
) -> None:
    first = serve_deciding(ROUTER_KEY_RPM="2", ROUTER_KEY_TPM="50000")
    # Twelve thousand tokens, for which four times as many are set aside.
    large: dict[str, Any] = {"state": "x" * 2000, "questions": {f"q{n}": NOUL for n in range(20)}}

    def fresh() -> DecisionsDesk:
        account = seed_account(first.server)
        return DecisionsDesk(first.server, first.upstream, account, "acme/judge")

    def many() -> Any:
        desk = fresh()
        desk.paid(desk.post())
        desk.paid(desk.post())
        return desk.told(desk.post(), 429, "rate_limit_exceeded")

    def long() -> Any:
        desk = fresh()
        desk.paid(desk.post(**large))
        return desk.told(desk.post(**large), 429, "rate_limit_exceeded")

    assert within_one(MINUTE_S, many)["metadata"]["limit_source"] == "router_key_requests"
    assert within_one(MINUTE_S, long)["metadata"]["limit_source"] == "router_key_tokens"


BROKEN_SETTINGS = """
from gateway.settings import *
INSTALLED_APPS = [*INSTALLED_APPS, "broken_app.Broken"]
"""
BROKEN_APP = """
from django.apps import AppConfig

class Broken(AppConfig):
    name = "broken_app"
    path = "."
    def ready(self):
        from routing.serving.deciding import crew
        def told(*args):
            raise RuntimeError("a bug of ours")
        crew.told = told
"""


@pytest.mark.parametrize("count", [1, 3])
def test_a_bug_of_ours_is_a_500_and_holds_nothing(
    serve_deciding: Callable[..., DecisionsDesk], tmp_path: Path, count: int
) -> None:
    (tmp_path / "broken_settings.py").write_text(BROKEN_SETTINGS, encoding="utf-8")
    (tmp_path / "broken_app.py").write_text(BROKEN_APP, encoding="utf-8")
    desk = serve_deciding(DJANGO_SETTINGS_MODULE="broken_settings", PYTHONPATH=str(tmp_path))
    desk.model = "acme/judge"

    response = desk.post(questions={f"q{n}": CHOICE for n in range(count)}, headers=ASKED)

    error = desk.told(response, 500, "server")
    assert "a bug of ours" not in response.text
    assert error["metadata"] == {"error_type": "server"}
    assert "router_metadata" not in as_json(response)
    assert desk.total_usage_nano() == 0
    audit = desk.server.manage("audit_ledger")
    assert (audit["mismatches"], audit["open_holds"]) == ([], 0)


def test_what_answered_questions_cost_is_known_though_the_request_failed(
    deciding: DecisionsDesk, orm_of: OrmOf
) -> None:
    deciding.upstream.verdicts("judge-a", {"when": "Which", "tokens": [["?", -0.1]]})

    response = deciding.post(
        model="acme/judge", questions={"a": NOUL, "b": CHOICE}, provider={"only": ["judge-a"]}
    )

    deciding.told(response, 502, "provider_unavailable")
    with orm_of(deciding.server):
        from routing.metering.models import Generation

        record = Generation.objects.get(pk=response.headers["X-Generation-Id"])
        assert record.charge_nano == 0
        assert record.upstream_cost_nano > 0
        assert record.tokens_prompt > 0
