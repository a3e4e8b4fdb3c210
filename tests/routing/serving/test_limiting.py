"""Which limits a call counts against and what it takes of them, asking no store; when keys were
used, and a key that is moved while a call of it waits."""

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

from accounts.key_uses import KeyUses
from gateway.http.errors import RateLimited, Unavailable
from gateway.limits.concurrency import ConcurrencyLimiter
from gateway.limits.limits import DAY_S, MINUTE_S, Exceeded, Limit, RateLimiter, Taken
from gateway.limits.rules import LimitsTaken, RateRule, build_rules, list_windows
from gateway.shared_cache import SharedCache
from routing.entities.entries import EndpointEntry, HouseCredential
from routing.ledger.orders import Payer, TopUpOrder
from routing.metering.cost import FREE as FREE_OF_CHARGE
from routing.metering.usage import Usage, add_usages
from routing.planning import admission_errors
from routing.serving.admission import endpoint_limits, rate_limits
from routing.serving.admission.endpoint_limits import Full
from routing.serving.attempts import holds
from routing.serving.attempts.holds import rebook_with_current_limits
from routing.serving.request.context import RequestProgress
from routing.serving.request.legs import Leg
from routing.serving.request.loop import Loop
from routing.serving.request.outcome import note_turn
from routing.serving.request.rescue import Rescue
from routing.tools.toolbox import Toolbox
from tests.routing.selection.entries import endpoint
from tests.routing.serving.calls import attempt_at, call_to

PAID, FREE = "acme/small", "acme/small:free"
REQUESTS, TOKENS = Limit("key_requests:1", 7, MINUTE_S), Limit("key_tokens:1", 5000, MINUTE_S)


class Counters(RateLimiter):
    """Counts here, at a moment of its own."""

    def __init__(self) -> None:
        self.now = 1_000_000_040.0
        super().__init__(SharedCache("", timeout_s=0.1), clock=lambda: self.now)

    def left(self, limit: Limit) -> int:
        """How much of it there is."""
        asked = self.take(limit._replace(cost=limit.most + 1))
        assert isinstance(asked, Exceeded)
        return limit.most - asked.used


def use_counters(patch: pytest.MonkeyPatch, counters: Counters) -> None:
    for module in (rate_limits, endpoint_limits):
        patch.setattr(module, "rate_limiter", lambda: counters)


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


def at(model_id: str, **more: Any) -> EndpointEntry:
    return endpoint(model_id=model_id, **more)


def wanted(call: RequestProgress) -> list[tuple[str, int, int, int]]:
    """Kind, number, window and cost of each limit that the call counts against."""
    found = rate_limits._list_limits(call)
    return [(each.scope.partition(":")[0], each.most, each.window_s, each.cost) for each in found]


def test_by_default_nothing_is_counted(counters) -> None:
    call = call_to(at(PAID))
    assert rate_limits.too_many(call) is None
    assert (call.limits_taken, counters._counts) == (None, {})


def test_who_is_refused_early_is_refused_for_nothing(all_on, counters, monkeypatch) -> None:
    # Of money another test speaks: this call has no account that could be read.
    monkeypatch.setattr(admission_errors, "_refuse_broke", lambda call: None)
    call = call_to()
    limit = rate_limits._list_limits(call)[0]
    with monkeypatch.context() as patch:
        # Whoever takes, though it be to give back, fails here.
        patch.setattr(counters, "take", None)
        for _ in range(2 * all_on.ROUTER_KEY_RPM):
            admission_errors.refuse_early(call)
    assert (call.limits_taken, counters.left(limit)) == (None, limit.most)

    assert isinstance(counters.take(limit._replace(cost=limit.most)), Taken)
    with pytest.raises(RateLimited) as refused:
        admission_errors.refuse_early(call)

    assert refused.value.headers["X-RateLimit-Limit"] == str(all_on.ROUTER_KEY_RPM)
    told = rate_limits.too_many(call)
    assert told is not None
    assert (told.text, told.metadata) == (refused.value.text, refused.value.metadata)


def test_free_variants_count_for_the_account_and_the_rest_for_the_key(all_on) -> None:
    mine = [("free_minute", 20, MINUTE_S, 1), ("free_day", 50, DAY_S, 1)]
    bound: Any = {"max_tokens": 100}
    paid, router = wanted(call_to(at(PAID), **bound)), call_to(at(PAID), **bound)
    router.context = router.context._replace(strategy="free")

    assert [each[0] for each in paid] == ["key_requests", "key_tokens"]
    assert wanted(call_to(at(FREE), **bound)) == mine
    assert wanted(call_to(at(FREE), at(PAID), **bound)) == mine + paid
    assert wanted(router) == mine
    # A call that nobody serves counts by what was named.
    assert [each[0] for each in wanted(call_to())] == ["key_requests", "key_tokens"]


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
    call = call_to(at(FREE))
    call.context = call.context._replace(caller=replace(call.context.caller, bought_nano=bought))
    (limit,) = rate_limits._list_limits(call)
    assert limit.most == most
    assert isinstance(counters.take(limit._replace(cost=most)), Taken)

    error = rate_limits.too_many(call)

    assert error is not None
    assert error.text.startswith(f"Rate limit exceeded: {text}")
    assert error.metadata["limit_source"] == "router_free_tier_daily"


def test_a_minute_s_free_requests(all_on, counters) -> None:
    call = call_to(at(FREE))
    *found, last = [rate_limits.too_many(call) for _ in range(21)]
    assert found == [None] * 20
    assert last is not None
    assert last.text == "Rate limit exceeded: free-models-per-min"
    assert last.headers["Retry-After"] == "40"
    counters.now += 40
    assert rate_limits.too_many(call) is None


def test_tokens_are_bounded_by_the_dearest_endpoint_and_by_the_limit(all_on) -> None:
    small, large, huge = (at(PAID, max_completion_tokens=most) for most in (100, 900, 60_000))
    # "Hello" is five bytes, beside its message's allowance.
    assert wanted(call_to(small))[-1][3] == 5 + 16 + 100
    assert wanted(call_to(small, large))[-1][3] == 5 + 16 + 900
    assert wanted(call_to(huge))[-1][3] == 5000


@given(used=st.lists(st.integers(0, 3000), max_size=8), asked=st.integers(1, 2000))
def test_what_is_reserved_never_exceeds_the_limit_and_what_is_used_is_kept(used, asked) -> None:
    counters, running, spent = Counters(), list[RequestProgress](), 0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(live, "ROUTER_KEY_TPM", 5000)
        use_counters(patch, counters)
        for tokens in used:
            call = call_to(at(PAID), max_tokens=asked)
            if rate_limits.too_many(call) is None:
                assert call.limits_taken is not None
                running.append(call)
                reserved = sum(c.limits_taken.limits[-1].cost for c in running if c.limits_taken)
                assert spent + reserved <= 5000
            if len(running) > 1:
                rate_limits.settle(running.pop(0), Usage(tokens, 0))
                spent += tokens
        for call in running:
            rate_limits.give_back(call)
        assert counters.left(TOKENS) == 5000 - spent


def test_told_twice_of_an_end_it_corrects_once(all_on, counters) -> None:
    call = call_to(at(PAID), max_tokens=1000)
    assert rate_limits.too_many(call) is None
    for _ in range(2):
        rate_limits.settle(call, Usage(10, 5))
        rate_limits.give_back(call)
    assert (counters.left(TOKENS), counters.left(REQUESTS)) == (5000 - 15, 6)


# --- Endpoints ------------------------------------------------------------------------------------


ONE_AT_A_TIME = build_rules("endpoint:1", [{"concurrent": 1, "requests_per_minute": 9}])


@pytest.fixture
def places(monkeypatch: pytest.MonkeyPatch) -> ConcurrencyLimiter:
    store = SharedCache("", timeout_s=0.1)
    found = ConcurrencyLimiter(store, later=lambda seconds, work: None)
    for module in (rate_limits, endpoint_limits):
        monkeypatch.setattr(module, "concurrency_limiter", lambda: found)
    return found


def test_who_asks_for_a_tool_has_the_place_of_the_one_that_asked(counters, places) -> None:
    limited, first = at(PAID, rate_rules=ONE_AT_A_TIME), "places:endpoint:1||||"
    asking = call_to(limited)
    taken = endpoint_limits.take_for_endpoint(asking, limited)
    assert isinstance(taken, LimitsTaken)
    asking.attempts.append(attempt_at(limited, limits=taken))

    nested = replace(call_to(limited), parent=asking)
    also = endpoint_limits.take_for_endpoint(nested, limited)

    # It is one request more, at the same place.
    assert isinstance(also, LimitsTaken)
    assert (also.places, places.count_own(first)) == ([], 1)
    assert isinstance(endpoint_limits.take_for_endpoint(call_to(limited), limited), Full)
    rate_limits.settle(asking, Usage(1, 1))
    assert places.count_own(first) == 0


def test_what_a_tool_asks_of_a_model_counts_for_the_user_of_the_request() -> None:
    asking = call_to(at(PAID), user="ada")
    nested = replace(call_to(at(PAID)), parent=replace(call_to(at(PAID)), parent=asking))
    assert endpoint_limits.read_marks(nested).user == "ada"


class Ended(BaseException):
    """As a greenlet is ended."""


def test_who_is_ended_while_further_places_are_asked_leaves_nothing(counters, places) -> None:
    rules = build_rules("endpoint:1", [{"requests_per_minute": 5, "concurrent": 3}])
    limited, take = at(PAID, rate_rules=rules), places.take
    call = call_to(limited)
    call.demands_of = lambda endpoint: [call.context.demand] * 4

    def end_at_the_second(bounds):
        if places.count_own("places:endpoint:1||||"):
            raise Ended
        return take(bounds)

    places.take = end_at_the_second
    with pytest.raises(Ended):
        endpoint_limits.take_for_endpoint(call, limited)
    [window] = list_windows(rules[0], endpoint_limits.read_marks(call), tokens=1)
    assert places.count_own("places:endpoint:1||||") == 0
    assert counters.left(window) == 5


def test_who_is_ended_while_windows_are_asked_leaves_no_place(counters, places) -> None:
    def end(*limits: Limit) -> None:
        raise Ended

    counters.take = end
    limited = at(PAID, rate_rules=ONE_AT_A_TIME)
    with pytest.raises(Ended):
        endpoint_limits.take_for_endpoint(call_to(limited), limited)
    assert places.count_own("places:endpoint:1||||") == 0


def test_what_a_rescue_s_first_part_used_counts_at_its_own_endpoint_alone(counters) -> None:
    limited = [
        at(PAID, rate_rules=build_rules(f"endpoint:{pk}", [{"tokens_per_minute": 5000}]))
        for pk in (1, 2)
    ]
    call = call_to(*limited, max_tokens=1000)
    call.rescue = Rescue(call.context.chat)
    windows: list[Limit] = []
    for target in limited:
        taken = endpoint_limits.take_for_endpoint(call, target)
        assert isinstance(taken, LimitsTaken)
        assert taken.windows is not None
        windows += taken.windows.limits
        call.attempts.append(attempt_at(target, limits=taken))
    broken, used = call.attempts[0], Usage(100, 20)
    endpoint_limits.settle_attempt(broken, used.total_tokens)
    call.rescue.legs.append(Leg(broken, used, FREE_OF_CHARGE))

    rate_limits.settle(call, add_usages(used, Usage(130, 7)))

    assert [counters.left(window) for window in windows] == [5000 - 120, 5000 - 137]


def test_each_turn_of_a_loop_counts_where_it_was_answered(counters) -> None:
    credential = HouseCredential(
        1,
        *("acme", "c1", "secret", "s" * 24),
        rate_rules=build_rules("credential:1", [{"tokens_per_minute": 5000}]),
    )
    first, second = [
        at(PAID, rate_rules=build_rules(f"endpoint:{pk}", [{"tokens_per_minute": 5000}]))
        for pk in (1, 2)
    ]
    call = call_to(first, second, max_tokens=1000)
    call.loop = Loop(call.context.chat, Toolbox(()))
    windows: list[Limit] = []
    turns = [(first, credential, 100), (first, None, 30), (second, None, 7), (first, None, 5)]
    for target, house, tokens in turns:
        taken = endpoint_limits.take_for_endpoint(call, target, house.rate_rules if house else ())
        assert not isinstance(taken, Full)
        if taken is not None and taken.windows is not None:
            windows += taken.windows.limits
        call.attempts.append(attempt_at(target, limits=taken, house=house))
        note_turn(call, call.attempts[-1], Usage(tokens, 0), native_finish="stop")

    # Of a last turn that broke off only the whole request's usage tells.
    rate_limits.settle(call, add_usages(call.loop.tally.usage, Usage(2, 0)))

    names = [window.scope.partition(":")[2].partition("|")[0] for window in windows]
    assert names == ["endpoint:1", "credential:1", "endpoint:2"]
    assert [counters.left(window) for window in windows] == [5000 - 137, 5000 - 100, 5000 - 7]


def test_every_call_of_decisions_counts_at_its_endpoint(counters, places) -> None:
    rules = build_rules("endpoint:1", [{"requests_per_minute": 5, "concurrent": 3}])
    limited, place = at(PAID, rate_rules=rules), "places:endpoint:1||||"
    call = call_to(limited)
    call.demands_of = lambda endpoint: [call.context.demand] * 4

    taken = endpoint_limits.take_for_endpoint(call, limited)

    # It has as many places as there are, and whoever comes next has none.
    assert isinstance(taken, LimitsTaken)
    assert taken.windows is not None
    [window] = taken.windows.limits
    assert (counters.left(window), places.count_own(place)) == (1, 3)
    assert isinstance(endpoint_limits.take_for_endpoint(call_to(limited), limited), Full)
    # What was never sent, because the first call was refused, is of others again.
    endpoint_limits.settle_attempt(attempt_at(limited, limits=taken, calls_sent=1), 0)
    assert (counters.left(window), places.count_own(place)) == (4, 0)

    call.demands_of = lambda endpoint: [call.context.demand] * 5
    refused = endpoint_limits.take_for_endpoint(call, limited)
    assert isinstance(refused, Full)
    assert "Retry-After" in endpoint_limits.build_limit_error(refused).headers
    call.demands_of = lambda endpoint: [call.context.demand] * 6
    refused = endpoint_limits.take_for_endpoint(call, limited)
    assert isinstance(refused, Full)
    error = endpoint_limits.build_limit_error(refused)
    assert "sent in 6 calls" in str(error)
    # However long it waited, it would never fit.
    assert (error.status, error.headers) == (400, {})


def test_headers_tell_the_caller_s_own_limits_and_nothing_of_others(counters) -> None:
    shared = build_rules("endpoint:1", [{"requests_per_minute": 2}])
    own: list[Any] = [
        {"requests_per_minute": 9},
        {"scope": {"model": PAID}, "requests_per_minute": 4},
        {"scope": {"model": "acme/other"}, "requests_per_minute": 1},
    ]
    limited = at(PAID, rate_rules=shared)
    call = call_to(limited)
    rules = build_rules("key:1", own)
    call.context = call.context._replace(caller=replace(call.context.caller, rate_rules=rules))

    def headers() -> dict[str, str]:
        return rate_limits.build_limit_headers(call, call.limits_taken, now_s=counters.now)

    assert rate_limits.too_many(call) is None
    assert headers()["x-ratelimit-remaining-requests"] == "8"
    taken = endpoint_limits.take_for_endpoint(call, limited)
    assert isinstance(taken, LimitsTaken)
    call.attempts.append(attempt_at(limited, limits=taken))
    assert headers()["x-ratelimit-limit-requests"] == "4"
    assert headers()["x-ratelimit-remaining-requests"] == "3"
    assert isinstance(endpoint_limits.take_for_endpoint(call, limited), LimitsTaken)
    full = endpoint_limits.take_for_endpoint(call, limited)
    assert isinstance(full, Full)
    refused = rate_limits.refuse_full(call, full)
    assert refused.status == 429
    assert "Retry-After" in refused.headers
    assert not any(name.startswith("x-ratelimit-") for name in refused.headers)


def test_another_credential_of_a_loop_has_limits_of_its_own(counters, places) -> None:
    first, second = [
        HouseCredential(
            pk,
            *("acme", f"c{pk}", "secret", "s" * 24),
            rate_rules=build_rules(f"credential:{pk}", [{"concurrent": 1}]),
        )
        for pk in (1, 2)
    ]
    limited = at(PAID, rate_rules=ONE_AT_A_TIME)
    call = call_to(limited)
    call.loop = Loop(call.context.chat, Toolbox(()))

    def scopes(credential: HouseCredential) -> list[str] | None:
        taken = endpoint_limits.take_for_endpoint(call, limited, credential.rate_rules)
        assert not isinstance(taken, Full)
        call.attempts.append(attempt_at(limited, limits=taken, house=credential))
        return None if taken is None else [place.scope for place in taken.places]

    both = ["places:endpoint:1||||", "places:credential:1||||"]
    assert scopes(first) == both
    assert scopes(first) is None
    assert scopes(second) == ["places:credential:2||||"]
    assert [scopes(first), scopes(second)] == [None, None]


def test_two_limits_of_one_scope_are_one_with_the_smaller_figures() -> None:
    scope = {"scope": {"model": PAID}}
    rules = build_rules(
        "key:1",
        [
            {"requests_per_minute": 5, "concurrent": 2} | scope,
            {"requests_per_minute": 3, "requests_per_day": 9} | scope,
            {"requests_per_minute": 1},
        ],
    )
    whole, named = (None,) * 4, (PAID, None, None, None)
    assert rules == (
        RateRule("key:1", *named, 3, 9, None, 2),
        RateRule("key:1", *whole, 1, None, None, None),
    )


# --- Keys -----------------------------------------------------------------------------------------


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
    for key, at in ((1, NOON), (2, NOON), (1, LATER)):
        mine.note(key, at)
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
