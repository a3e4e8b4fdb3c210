"""What decisions are refused, and what that costs: all calls of a request count together."""

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
OrmOf = Callable[[GatewayServer], AbstractContextManager[None]]


def test_the_estimate_is_of_all_calls_together(deciding: DecisionsDesk) -> None:
    # One question costs some 600 bytes at the most, a millionth of a dollar each.
    poor = seed_account(deciding.server, credits_usd="0.005")
    desk = DecisionsDesk(deciding.server, deciding.upstream, poor, "acme/judge")
    order = {"only": ["judge-a"]}
    questions = {f"q{n}": {**NOUL, "instructions": "x" * 500} for n in range(20)}

    error = desk.expect_refusal(402, "payment_required", questions=questions, provider=order)
    assert error["metadata"]["reason"] == "weight_exceeds_budget"

    desk.paid(desk.post(questions={"q": NOUL}, provider=order))


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
        return desk.check_error(desk.post(), 429, "rate_limit_exceeded")

    def long() -> Any:
        desk = fresh()
        desk.paid(desk.post(**large))
        return desk.check_error(desk.post(**large), 429, "rate_limit_exceeded")

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

        error = desk.check_error(response, 500, "server")
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

    deciding.check_error(response, 502, "provider_unavailable")
    with orm_of(deciding.server):
        from routing.metering.models import Generation

        record = Generation.objects.get(pk=response.headers["X-Generation-Id"])
        assert record.charge_nano == 0
        assert record.upstream_cost_nano > 0
        assert record.tokens_prompt > 0
