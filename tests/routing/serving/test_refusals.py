"""Which 402 a refused hold is, and what an error says of the attempts behind it."""

from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest
from django.urls import resolve

from accounts.spending import ScopeKind, SpendScope, WindowName
from gateway.http.errors import GatewayError
from routing.ledger.orders import BudgetState, HoldRefusal
from routing.serving.admission.payment_errors import build_payment_error
from routing.serving.request.errors import ProviderError
from tests.routing.selection.entries import endpoint
from tests.routing.serving.calls import ROOT, call_to, failed_at

OWNER = UUID("0b5c1cf5-3f1c-4c0e-8d3e-2f0f0d6a3c11")
SCOPES: tuple[ScopeKind, ...] = ("workspace", "guardrail")
SPENT = {"limit_source": "router_key_limit", "reason": "key_limit_exhausted"}
BROKE = {"limit_source": "router_credits"}
KEY_TOO_SMALL = {"limit_source": "router_key_limit", "provider_name": None}
BALANCE_TOO_SMALL = BROKE | {"provider_name": None, "reason": "weight_exceeds_budget"}
BUSY = {"limit_source": "router_in_flight_budget", "reason": "in_flight_budget_exhausted"}

# Asked for, balance, held on the account, left of the key's limit, held on the key: which refusal.
ROWS: list[tuple[int, int, int, int | None, int, dict[str, Any]]] = [
    (100, 1000, 0, 0, 0, SPENT),
    (100, 1000, 0, -5, 0, SPENT),
    (100, -1000, 0, 0, 0, SPENT),  # The key's limit comes before the balance.
    (100, -1, 0, None, 0, BROKE),
    (100, 0, 0, None, 0, BROKE),
    (0, -1, 0, None, 0, BROKE),
    (0, -1, 0, 0, 0, BROKE),  # A free call asks nothing of the key's limit.
    (100, 0, 0, 50, 0, BROKE),
    (100, 1000, 0, 99, 0, KEY_TOO_SMALL),
    (100, 50, 0, 99, 0, KEY_TOO_SMALL),
    (100, 99, 0, None, 0, BALANCE_TOO_SMALL),
    (100, 99, 99, 1000, 0, BALANCE_TOO_SMALL),
    (100, 100, 1, None, 0, BUSY),
    (100, 1000, 0, 100, 1, BUSY),
]


def error_for(refusal: HoldRefusal) -> GatewayError:
    return build_payment_error(call_to(endpoint()).context, refusal, output_tokens=1000)


def error_at(
    asked: int, balance: int, held: int, left: int | None, key_held: int, reset: str | None = None
) -> GatewayError:
    return error_for(HoldRefusal(asked, balance, held, left, key_held, reset))


@pytest.mark.parametrize(("asked", "balance", "held", "left", "key_held", "metadata"), ROWS)
def test_the_first_reason_of_the_reference_s_order_is_told(
    asked: int, balance: int, held: int, left: int | None, key_held: int, metadata: dict[str, Any]
) -> None:
    body = error_at(asked, balance, held, left, key_held).body()
    assert body["code"] == 402
    assert isinstance(body["metadata"].pop("remedy_hint"), str)
    assert body["metadata"] == {"error_type": "payment_required", **metadata}


def state(
    scope: ScopeKind, window: WindowName, left: int, held: int = 0, asked: int = 100
) -> BudgetState:
    owner = OWNER.hex if scope == "workspace" else f"{OWNER.hex}:k:1"
    limited = SpendScope(scope, owner, window, 500 * 10**9, counts_byok=False)
    return BudgetState(limited, left, held, asked)


def error_of_budgets(
    *budgets: BudgetState, key_left: int | None = 0, balance: int = -1
) -> GatewayError:
    return error_for(HoldRefusal(100, balance, 0, key_left, 0, None, budgets=budgets))


RICH: Any = {"key_left": None, "balance": 1000}
BUDGETS: list[tuple[list[BudgetState], str]] = [
    ([state("workspace", "month", 0)], "Workspace monthly"),
    ([state("workspace", "total", 1), state("workspace", "day", -1)], "Workspace daily"),
    ([state("guardrail", "week", 0), state("workspace", "total", 0)], "Guardrail weekly"),
    ([state("guardrail", "total", 0)], "Guardrail lifetime"),
]


@pytest.mark.parametrize(("budgets", "which"), BUDGETS)
def test_a_spent_budget_comes_before_key_and_balance(budgets, which: str) -> None:
    error = error_of_budgets(*budgets)
    assert error.text == f"{which} budget of $500.00 exceeded. Contact your org admin."
    assert (error.status, error.error_type, error.headers) == (403, "permission_denied", {})
    assert isinstance(error.metadata["remedy_hint"], str)


def test_a_tag_whose_budget_is_spent_is_named() -> None:
    scope = SpendScope("tag", f"{OWNER.hex}:x", "day", 10**9, False, OWNER.hex, tag="team=blue")
    spent = error_of_budgets(BudgetState(scope, 0, 0, 100))
    dear = error_of_budgets(BudgetState(scope, 50, 0, 100), **RICH)
    assert spent.text.startswith('Tag "team=blue" daily budget of $1.00 exceeded.')
    assert 'the daily budget of $1.00 of this tag "team=blue" decides' in dear.text


def test_a_budget_refuses_no_request_that_asks_nothing_of_it() -> None:
    error = error_of_budgets(state("workspace", "month", 0, asked=0), key_left=None, balance=0)
    assert error.metadata["limit_source"] == "router_credits"


def test_a_call_on_a_credential_of_ones_own_is_not_told_of_the_balance() -> None:
    refusal = HoldRefusal(0, -5, 0, 50, 0, None, key_asked_nano=60, byok_nano=60)
    assert error_for(refusal).metadata["limit_source"] == "router_key_limit"
    spent = error_for(replace(refusal, key_left_nano=0))
    assert spent.metadata["reason"] == "key_limit_exhausted"


def remedy_text(path: str) -> str:
    return f"A management key of the account can raise it with {path}, described at {ROOT}/docs"


KEY_REMEDY = remedy_text("PATCH /api/v1/keys/{hash}")


@pytest.mark.parametrize("reset", [None, "daily", "weekly", "monthly"])
def test_a_spent_key_is_told_which_limit_it_was(reset: str | None) -> None:
    which = f"Key limit exceeded ({reset or 'total'} limit)."
    spent = error_at(100, 1000, 0, 0, 0, reset)
    assert spent.text == f'{which} It is the limit of API key "CI". {KEY_REMEDY}'


AFFORDED = (
    "This request requires more credits, or fewer max_tokens. You requested up to 1000 tokens, "
    "but can only afford {}. What is left of {} decides. {}"
)


def test_who_can_add_credits_is_told_with_a_page_that_exists() -> None:
    broke, dear = error_at(100, 0, 0, None, 0), error_at(1000, 250, 0, None, 0)
    busy = error_at(100, 100, 1, None, 0)

    remedy, _, page = broke.text.removeprefix("Insufficient credits. ").partition(ROOT)
    assert remedy == "Whoever runs this gateway can add credits, using "
    assert resolve(page).view_name == "admin:accounts_account_change"
    assert resolve("/docs").view_name == "docs"
    assert dear.text.startswith(AFFORDED.format(250, "the account's credits", remedy))
    assert busy.text.startswith(
        "Credits are held by requests in flight. Retry when they have finished. "
        f"They hold the account's credits. {remedy}"
    )
    assert (broke.headers, busy.headers) == ({}, {"Retry-After": "1"})


def test_a_request_that_is_too_dear_is_told_for_which_limit_and_what_it_can_afford() -> None:
    key = error_at(1000, 900, 0, 10, 0)
    workspace, guardrail = (
        error_of_budgets(state("workspace", "day", 150, held=60), state(scope, "month", 50), **RICH)
        for scope in SCOPES
    )

    assert key.text == AFFORDED.format(10, 'the limit of API key "CI"', KEY_REMEDY)
    budget = "the monthly budget of $500.00 of"
    for error, kind, path in (
        (workspace, "workspace", f"PUT /api/v1/workspaces/{OWNER}/budgets/monthly"),
        (guardrail, "guardrail", f"PATCH /api/v1/guardrails/{OWNER}"),
    ):
        assert error.text == AFFORDED.format(500, f"{budget} {kind} {OWNER}", remedy_text(path))
        assert error.metadata["limit_source"] == f"router_{kind}_budget"


def test_who_waits_is_told_what_running_requests_hold() -> None:
    of_key, of_nothing = error_at(100, 1000, 0, 100, 1), error_at(100, 1000, 0, 100, 0)
    of_budget = error_of_budgets(state("workspace", "day", 150, held=60), **RICH)
    assert f'They hold the limit of API key "CI". {KEY_REMEDY}' in of_key.text
    assert "They hold the daily budget of $500.00 of workspace" in of_budget.text
    assert (of_budget.status, of_budget.headers) == (402, {"Retry-After": "1"})
    assert of_budget.metadata["reason"] == "in_flight_budget_exhausted"
    assert of_nothing.text.endswith("Retry when they have finished.")


def test_an_account_that_is_not_billed_is_refused_for_its_key_only(settings) -> None:
    settings.BILLING_ENFORCED = False
    assert error_at(100, -50, 0, 10, 0).metadata["limit_source"] == "router_key_limit"
    assert error_at(100, -50, 0, 100, 1).metadata["limit_source"] == "router_in_flight_budget"


@pytest.mark.parametrize("exposed", [True, False])
def test_the_last_attempt_is_told_and_the_earlier_ones_are_listed(settings, exposed: bool) -> None:
    settings.ROUTER_EXPOSE_RAW_ERRORS = exposed
    lost = {"error_type": "provider_unavailable", "raw": "a secret body"}
    first = failed_at(endpoint("alpha"), 500, **lost)
    last = failed_at(endpoint("beta"), 503, raw="busy", provider_code="E1", failed_generation="{}")

    error = ProviderError([first, last])

    earlier = {"provider": "Alpha", "code": "provider_unavailable", "status": 500}
    assert error.body() == {
        "code": 503,
        "message": "Provider returned error",
        "metadata": {
            "error_type": "provider_overloaded",
            "provider_name": "Beta",
            "is_byok": False,
            **({"raw": "busy"} if exposed else {}),
            "provider_code": "E1",
            "failed_generation": "{}",
            "previous_errors": [earlier],
        },
    }


HINTS: list[tuple[list[tuple[int, float | None]], dict[str, str]]] = [
    ([(429, 7.0), (429, 3.0)], {"Retry-After": "3"}),
    ([(429, 7.0), (429, None)], {}),
    ([(429, None)], {}),
    ([(500, 7.0)], {}),
    ([(500, 7.0), (503, 9.0)], {"Retry-After": "7"}),
    ([(529, 0.2)], {"Retry-After": "0"}),
]


@pytest.mark.parametrize(("failures", "headers"), HINTS)
def test_the_smallest_hint_is_told_where_every_endpoint_gave_one(failures, headers) -> None:
    attempts = [failed_at(endpoint(), status, retry_after_s=hint) for status, hint in failures]
    assert ProviderError(attempts).headers == headers


def test_a_429_says_whose_limit_it_was() -> None:
    metadata = ProviderError([failed_at(endpoint(), 429)]).metadata
    assert metadata["limit_source"] == "upstream_provider_shared_pool"
    assert metadata["remedy_hint"]
