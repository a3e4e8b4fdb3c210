"""Row 81 of the management reference's section 19."""

from collections.abc import Callable

import pytest

from gateway.limits import DAY_S, window_start
from tests.conformance.desk import Desk, Serve
from tests.support.gateways import seed_account
from tests.support.server import as_json
from tests.support.windows import within_one

pytestmark = pytest.mark.both
FREE = "acme/small:free"
LIMITS = {
    "ROUTER_FREE_RPD_LOW": "50",
    "ROUTER_FREE_RPD_HIGH": "1000",
    "ROUTER_FREE_CREDIT_THRESHOLD": "10",
}


@pytest.fixture(scope="module")
def desks(serve: Serve) -> Callable[[], Desk]:
    return serve(**LIMITS)


def after_fifty(desk: Desk) -> Desk:
    """A desk whose account made fifty free calls today."""
    for _ in range(50):
        desk.ok(model=FREE)
    desk.upstream.clear()
    return desk


def free_requests(desk: Desk) -> dict[str, int]:
    """What GET /key says of the account's day."""
    told = as_json(desk.server.get("/api/v1/key", key=desk.account.api_key))["data"]
    found: dict[str, int] = told["free_model_daily_requests"]
    return found


def test_the_51st_free_call_of_a_day(desks: Callable[[], Desk]) -> None:
    def work() -> int:
        desk = after_fifty(desks())
        assert free_requests(desk) == {"limit": 50, "used": 50, "remaining": 0}
        answer = desk.post(model=FREE)
        error = desk.check_refused(answer, 429, "rate_limit_exceeded")
        assert error["message"] == (
            "Rate limit exceeded: free-models-per-day. "
            "Add 10 credits to unlock 1000 free model requests per day"
        )
        assert error["metadata"]["limit_source"] == "router_free_tier_daily"
        shown = {name: answer.headers[name] for name in error["metadata"]["headers"]}
        assert shown == error["metadata"]["headers"]
        assert shown["X-RateLimit-Limit"] == "50"
        assert shown["X-RateLimit-Remaining"] == "0"
        assert 1 <= int(answer.headers["Retry-After"]) <= DAY_S
        # What is not free is not limited.
        desk.ok()
        return int(shown["X-RateLimit-Reset"])

    reset_ms = within_one(DAY_S, work)
    assert reset_ms % (DAY_S * 1000) == 0
    assert window_start(reset_ms / 1000 - 1, DAY_S) == reset_ms // 1000 - DAY_S


def test_ten_credits_unlock_more(desks: Callable[[], Desk]) -> None:
    def work() -> None:
        desk = desks()
        desk.account = seed_account(desk.server, credits_usd="10")
        after_fifty(desk).ok(model=FREE)
        assert free_requests(desk) == {"limit": 1000, "used": 51, "remaining": 949}

    within_one(DAY_S, work)
