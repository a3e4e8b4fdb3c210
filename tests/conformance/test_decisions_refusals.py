"""Every status that callers of decisions can meet, and what each of them costs."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from gateway.limits.limits import MINUTE_S
from tests.conformance.deciding import (
    CHOICE,
    NOUL,
    DecisionsDesk,
    judging,
)
from tests.conformance.desk import Serve
from tests.support.gateways import seed_account
from tests.support.server import GatewayServer, as_json
from tests.support.windows import within_one

pytestmark = pytest.mark.thorough

ASKED = {"X-Router-Metadata": "enabled"}
ONE = {"order": ["native-a"], "allow_fallbacks": False}
# What its caller is told of each fault of the upstream.
TOLD: dict[tuple[int, str], tuple[str, ...]] = {
    (400, "invalid_request"): ("400",),
    (400, "context_length_exceeded"): ("400-context-length",),
    (403, "content_policy_violation"): ("403-policy",),
    (404, "not_found"): ("404",),
    (413, "payload_too_large"): ("413",),
    (429, "rate_limit_exceeded"): ("429",),
    (502, "provider_unavailable"): ("401", "500", "truncated-json", "empty-choices", "reset"),
    (503, "provider_overloaded"): ("503",),
    (524, "timeout"): ("408",),
    (529, "provider_overloaded"): ("529",),
}
OrmOf = Callable[[GatewayServer], AbstractContextManager[None]]


def test_what_a_provider_refuses(deciding: DecisionsDesk) -> None:
    for fault, told in ((fault, told) for told, faults in TOLD.items() for fault in faults):
        deciding.upstream.clear()
        deciding.upstream.script("native-a", {"fault": fault}, repeat=True)

        response = deciding.post(provider=ONE, headers=ASKED)

        error = deciding.told(response, *told)
        assert error["metadata"]["provider_name"] == "TypeSafe", fault
        assert response.headers["X-Generation-Id"].startswith("gen-dec-")
        assert as_json(response)["router_metadata"]["attempt"] == 1
        record = deciding.generation(response.headers["X-Generation-Id"])
        assert (record["api_type"], record["total_cost"]) == ("decisions", 0)
    assert deciding.total_usage_nano() == deciding.spent_nano


def test_the_estimate_is_of_all_calls_together(deciding: DecisionsDesk) -> None:
    # One question costs some 600 bytes at the most, a millionth of a dollar each.
    poor = seed_account(deciding.server, credits_usd="0.005")
    desk = DecisionsDesk(deciding.server, deciding.upstream, poor, "acme/judge")
    order = {"only": ["judge-a"]}
    questions = {f"q{n}": {**NOUL, "instructions": "x" * 500} for n in range(20)}

    error = desk.refused(402, "payment_required", questions=questions, provider=order)
    assert error["metadata"]["reason"] == "weight_exceeds_budget"

    desk.paid(desk.post(questions={"q": NOUL}, provider=order))


def test_a_body_that_is_too_large_and_a_request_that_takes_too_long(
    serve: Serve,
) -> None:
    desk = judging(serve(ROUTER_MAX_BODY_BYTES="2000", ROUTER_TOTAL_TIMEOUT="0.5")())

    desk.refused(413, "payload_too_large", state="x" * 2000)
    for model in ("typesafe/jev-1.13", "acme/judge"):
        for persona in ("native-a", "native-b", "judge-a", "judge-b"):
            desk.upstream.script(persona, {"gate": "never"}, repeat=True)
        response = desk.post(model=model, questions={f"q{n}": NOUL for n in range(12)})
        error = desk.told(response, 524, "timeout")
        assert error["message"] == "Operation timed out. Please try again later."
        desk.upstream.clear()


def test_requests_and_their_tokens_are_counted_over_all_calls(
    serve: Serve,
) -> None:
    desks = serve(ROUTER_KEY_RPM="2", ROUTER_KEY_TPM="50000")
    # Twelve thousand tokens, for which four times as many are set aside.
    large: dict[str, Any] = {"state": "x" * 2000, "questions": {f"q{n}": NOUL for n in range(20)}}

    def fresh() -> DecisionsDesk:
        desk = judging(desks())
        desk.model = "acme/judge"
        return desk

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
        from routing.serving.decisions import batch
        def fail(*args):
            raise RuntimeError("a bug of ours")
        assert batch.read_result
        batch.read_result = fail
"""


def test_a_bug_of_ours_is_a_500_and_holds_nothing(serve: Serve, tmp_path: Path) -> None:
    (tmp_path / "broken_settings.py").write_text(BROKEN_SETTINGS, encoding="utf-8")
    (tmp_path / "broken_app.py").write_text(BROKEN_APP, encoding="utf-8")
    broken = {"DJANGO_SETTINGS_MODULE": "broken_settings", "PYTHONPATH": str(tmp_path)}
    desk = judging(serve(**broken)())
    desk.model = "acme/judge"
    for count in (1, 3):
        response = desk.post(questions={f"q{n}": CHOICE for n in range(count)}, headers=ASKED)

        error = desk.told(response, 500, "server")
        assert "a bug of ours" not in response.text
        its_id = response.headers["X-Request-Id"]
        assert error["metadata"] == {"error_type": "server", "request_id": its_id}
        assert "router_metadata" not in as_json(response)
        assert desk.total_usage_nano() == 0
        desk.server.check_books()


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
