"""Which limits a call counts against and what it takes of them, asking no store. Also when keys
were used, and a key that is moved while a call of it waits."""

import uuid
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from django.conf import settings as live
from hypothesis import given
from hypothesis import strategies as st
from pytest_django import Settings

from accounts.authentication import KeyUses
from gateway.http.errors import RateLimited, Unavailable
from gateway.limits.allowances import NOTHING
from gateway.limits.limits import DAY_S, MINUTE_S, Limit, WindowsTaken
from routing.ledger.orders import Payer, TopUpOrder
from routing.metering.usage import Usage
from routing.planning import admission_errors
from routing.serving.admission import rate_limits
from routing.serving.attempts import holds
from routing.serving.attempts.holds import rebook_with_current_limits
from routing.serving.request.context import RequestProgress
from tests.routing.serving.calls import call_to
from tests.routing.serving.limit_counters import FREE, PAID, Counters, endpoint_of, use_counters

REQUESTS, TOKENS = Limit("key_requests:1", 7, MINUTE_S), Limit("key_tokens:1", 5000, MINUTE_S)


@pytest.fixture
def counters(monkeypatch: pytest.MonkeyPatch) -> Counters:
    found = Counters()
    use_counters(monkeypatch, found)
    return found


@pytest.fixture
def all_on(settings: Settings) -> Settings:
    settings.ROUTER_FREE_RPM = 20
    settings.ROUTER_FREE_RPD_LOW = 50
    settings.ROUTER_FREE_RPD_HIGH = 1000
    settings.ROUTER_FREE_CREDIT_THRESHOLD = 10
    settings.ROUTER_KEY_RPM = 7
    settings.ROUTER_KEY_TPM = 5000
    return settings


def list_limits(call: RequestProgress) -> list[tuple[str, int, int, int]]:
    """Kind, number, window and cost of each limit that the call counts against."""
    found = rate_limits._list_limits(call, NOTHING)
    return [(each.scope.partition(":")[0], each.most, each.window_s, each.cost) for each in found]


def test_by_default_nothing_is_counted(counters) -> None:
    call = call_to(endpoint_of(PAID))
    assert rate_limits.count_request(call) is None
    assert (call.limits_taken, counters._counts) == (None, {})


def test_who_is_refused_early_is_refused_for_nothing(all_on, counters, monkeypatch) -> None:
    # Of money another test speaks: this call has no account that could be read.
    monkeypatch.setattr(admission_errors, "_refuse_unpayable", lambda call: None)
    call = call_to()
    limit = rate_limits._list_limits(call, NOTHING)[0]
    with monkeypatch.context() as patch:
        # Whoever takes, though it be to give back, fails here.
        patch.setattr(counters, "take", None)
        for _ in range(2 * all_on.ROUTER_KEY_RPM):
            admission_errors.refuse_early(call)
    assert (call.limits_taken, counters.count_remaining(limit)) == (None, limit.most)

    assert isinstance(counters.take(limit._replace(cost=limit.most)), WindowsTaken)
    with pytest.raises(RateLimited) as refused:
        admission_errors.refuse_early(call)

    assert refused.value.headers["X-RateLimit-Limit"] == str(all_on.ROUTER_KEY_RPM)
    told = rate_limits.count_request(call)
    assert told is not None
    assert (told.text, told.metadata) == (refused.value.text, refused.value.metadata)


def test_free_variants_count_for_the_account_and_the_rest_for_the_key(all_on) -> None:
    mine = [("free_minute", 20, MINUTE_S, 1), ("free_day", 50, DAY_S, 1)]
    bound: Any = {"max_tokens": 100}
    paid, router = (
        list_limits(call_to(endpoint_of(PAID), **bound)),
        call_to(endpoint_of(PAID), **bound),
    )
    router.context = router.context._replace(strategy="free")

    assert [each[0] for each in paid] == ["key_requests", "key_tokens"]
    assert list_limits(call_to(endpoint_of(FREE), **bound)) == mine
    assert list_limits(call_to(endpoint_of(FREE), endpoint_of(PAID), **bound)) == mine + paid
    assert list_limits(router) == mine
    # A call that nobody serves counts by what was named.
    assert [each[0] for each in list_limits(call_to())] == ["key_requests", "key_tokens"]


UNLOCK = "free-models-per-day. Add 10 credits to unlock 1000 free model requests per day"


@pytest.mark.parametrize(
    ("bought", "most", "text"),
    [
        (0, 50, UNLOCK),
        (10 * 10**9 - 1, 50, UNLOCK),
        (10 * 10**9, 1000, "free-models-per-day-high-balance"),
    ],
)
def test_who_bought_enough_has_the_larger_day(all_on, counters, bought, most, text) -> None:
    all_on.ROUTER_FREE_RPM = 0
    call = call_to(endpoint_of(FREE))
    call.context = call.context._replace(caller=replace(call.context.caller, bought_nano=bought))
    (limit,) = rate_limits._list_limits(call, NOTHING)
    assert limit.most == most
    assert isinstance(counters.take(limit._replace(cost=most)), WindowsTaken)

    error = rate_limits.count_request(call)

    assert error is not None
    assert error.text.startswith(f"Rate limit exceeded: {text}")
    assert error.metadata["limit_source"] == "router_free_tier_daily"


TOO_LARGE = "tokens-per-min. This request may use up to 3021 tokens, and 1979 of 5000 are left"


@pytest.mark.parametrize(
    ("model_id", "tokens", "most", "text", "source"),
    [
        (FREE, 100, 20, "free-models-per-min", "router_free_tier_minute"),
        (PAID, 100, 7, "requests-per-min", "router_key_requests"),
        (PAID, 3000, 1, TOO_LARGE, "router_key_tokens"),
    ],
)
def test_a_minute_s_requests(all_on, counters, model_id, tokens, most, text, source) -> None:
    call = call_to(endpoint_of(model_id), max_tokens=tokens)
    *found, last = [rate_limits.count_request(call) for _ in range(most + 1)]
    assert found == [None] * most
    assert last is not None
    assert (last.text, last.metadata["limit_source"]) == (f"Rate limit exceeded: {text}", source)
    assert last.headers["Retry-After"] == "40"
    counters.now += 40
    assert rate_limits.count_request(call) is None


def test_tokens_are_bounded_by_the_dearest_endpoint_and_by_the_limit(all_on) -> None:
    small, large, huge = (
        endpoint_of(PAID, max_completion_tokens=most) for most in (100, 900, 60_000)
    )
    # "Hello" is five bytes, beside its message's allowance.
    assert list_limits(call_to(small))[-1][3] == 5 + 16 + 100
    assert list_limits(call_to(small, large))[-1][3] == 5 + 16 + 900
    assert list_limits(call_to(huge))[-1][3] == 5000


@given(used=st.lists(st.integers(0, 3000), max_size=8), asked=st.integers(1, 2000))
def test_what_is_reserved_never_exceeds_the_limit_and_what_is_used_is_kept(used, asked) -> None:
    counters, running, spent = Counters(), list[RequestProgress](), 0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(live, "ROUTER_KEY_TPM", 5000)
        use_counters(patch, counters)
        for tokens in used:
            call = call_to(endpoint_of(PAID), max_tokens=asked)
            if rate_limits.count_request(call) is None:
                assert call.limits_taken is not None
                running.append(call)
                reserved = sum(c.limits_taken.limits[-1].cost for c in running if c.limits_taken)
                assert spent + reserved <= 5000
            if len(running) > 1:
                rate_limits.settle(running.pop(0), Usage(tokens, 0))
                spent += tokens
        for call in running:
            rate_limits.give_back(call)
        assert counters.count_remaining(TOKENS) == 5000 - spent


def test_told_twice_of_an_end_it_corrects_once(all_on, counters) -> None:
    call = call_to(endpoint_of(PAID), max_tokens=1000)
    assert rate_limits.count_request(call) is None
    for _ in range(2):
        rate_limits.settle(call, Usage(10, 5))
        rate_limits.give_back(call)
    assert (counters.count_remaining(TOKENS), counters.count_remaining(REQUESTS)) == (5000 - 15, 6)


# --- Endpoints ------------------------------------------------------------------------------------


NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
LATER = NOON + timedelta(seconds=1)
Uses = Mapping[int, datetime]


class Written:
    """What was told to the database, and what that says to each time."""

    def __init__(self, *answers: Callable[[Uses], set[int]]) -> None:
        self.told: list[dict[int, datetime]] = []
        self.uses, self._answers = KeyUses(self._record), iter(answers)

    def _record(self, uses: Uses) -> set[int]:
        self.told.append(dict(uses))
        return next(self._answers, set)(uses)


def test_what_was_written_is_not_written_again() -> None:
    # The second key's row is locked at first: its note waits for the next time.
    written = Written(lambda uses: {1})
    mine = written.uses
    mine.write()
    for key, moment in ((1, NOON), (2, NOON), (1, LATER)):
        mine.note(key, moment)
    for _ in range(3):
        mine.write()
    assert written.told == [{1: LATER, 2: NOON}, {2: NOON}]


def test_a_use_while_others_are_written_is_kept() -> None:
    def used_meanwhile(uses: Uses) -> set[int]:
        written.uses.note(1, LATER)
        return set(uses)

    written = Written(used_meanwhile)
    written.uses.note(1, NOON)
    for _ in range(3):
        written.uses.write()

    assert written.told == [{1: NOON}, {1: LATER}]


def test_nothing_is_lost_where_the_database_fails() -> None:
    def fail(uses: Uses) -> set[int]:
        raise ConnectionError("gone")

    written = Written(fail)
    written.uses.note(1, NOON)
    with pytest.raises(ConnectionError):
        written.uses.write()
    written.uses.write()

    assert written.told == [{1: NOON}, {1: NOON}]


@pytest.mark.parametrize("moved", [True, False])
def test_a_call_never_counts_against_limits_of_a_workspace_it_was_not_begun_in(
    moved: bool, monkeypatch
) -> None:
    call, asked = call_to(), list[TopUpOrder]()
    place = uuid.uuid4() if moved else call.context.caller.workspace_id
    now = replace(call.context.caller, workspace_id=place, limits_version=7, limited="day")
    ledger = SimpleNamespace(submit=asked.append, wait=lambda ticket, timeout_s: True)
    monkeypatch.setattr(holds, "ledger", ledger)
    monkeypatch.setattr(holds, "reload_caller", lambda caller: now)
    before: Payer = call.context.payer
    order = TopUpOrder("gen-1", before, 5)

    if moved:
        with pytest.raises(Unavailable):
            rebook_with_current_limits(call, order)
        assert (asked, call.context.payer) == ([], before)
    else:
        assert rebook_with_current_limits(call, order) is True
        assert [each.payer for each in asked] == [call.context.payer]
        assert (call.context.payer.limits_version, call.context.payer.limited) == (7, "day")
