"""Limits of endpoints: windows and places, of tools, loops, decisions and rescues."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from gateway.limits.allowances import build_allowance
from gateway.limits.concurrency import ConcurrencyLimiter
from gateway.limits.limits import Limit
from gateway.limits.rules import LimitsTaken, Marks, RateRule, build_rules
from gateway.shared_cache import SharedCache
from routing.entities.entries import EndpointEntry, HouseCredential
from routing.entities.exchange import Answer
from routing.metering.cost import FREE as FREE_OF_CHARGE
from routing.metering.usage import Usage, add_usages
from routing.serving.admission import endpoint_limits, rate_limits
from routing.serving.admission.endpoint_limits import Full
from routing.serving.answer.stream_setup import note_unread
from routing.serving.attempts import attempt_answer
from routing.serving.request.context import RequestProgress
from routing.serving.request.legs import Leg
from routing.serving.request.loop import Loop
from routing.serving.request.outcome import note_turn
from routing.serving.request.rescue import Rescue
from routing.tools.toolbox import Toolbox
from tests.routing.serving.calls import attempt_at, call_to
from tests.routing.serving.limit_counters import PAID, Counters, endpoint_of, use_counters


@pytest.fixture
def counters(monkeypatch: pytest.MonkeyPatch) -> Counters:
    found = Counters()
    use_counters(monkeypatch, found)
    return found


ONE_AT_A_TIME = build_rules("endpoint:1", [{"concurrent": 1, "requests_per_minute": 9}])


@pytest.fixture
def places(monkeypatch: pytest.MonkeyPatch) -> ConcurrencyLimiter:
    store = SharedCache("", timeout_s=0.1)
    found = ConcurrencyLimiter(store, later=lambda seconds, work: None)
    for module in (rate_limits, endpoint_limits):
        monkeypatch.setattr(module, "concurrency_limiter", lambda: found)
    return found


def take(call: RequestProgress, target: EndpointEntry, *rules: Any) -> LimitsTaken:
    taken = endpoint_limits.take_for_endpoint(call, target, *rules)
    assert isinstance(taken, LimitsTaken)
    return taken


def windows_of(taken: LimitsTaken) -> list[Limit]:
    return [] if taken.windows is None else list(taken.windows.limits)


def refuse(call: RequestProgress, target: EndpointEntry) -> Full:
    full = endpoint_limits.take_for_endpoint(call, target)
    assert isinstance(full, Full)
    return full


def test_who_asks_for_a_tool_has_the_place_of_the_one_that_asked(counters, places) -> None:
    limited, first = endpoint_of(PAID, rate_rules=ONE_AT_A_TIME), "places:endpoint:1||||"
    asking = call_to(limited)
    taken = take(asking, limited)
    asking.attempts.append(attempt_at(limited, limits=taken))

    nested = replace(call_to(limited), parent=asking)
    also = take(nested, limited)

    # It is one request more, at the same place.
    assert (also.places, places.count_own(first)) == ([], 1)
    refuse(call_to(limited), limited)
    rate_limits.settle(asking, Usage(1, 1))
    assert places.count_own(first) == 0


def test_what_a_tool_asks_of_a_model_counts_for_the_user_of_the_request() -> None:
    asking = call_to(endpoint_of(PAID), user="ada")
    nested = replace(
        call_to(endpoint_of(PAID)), parent=replace(call_to(endpoint_of(PAID)), parent=asking)
    )
    assert endpoint_limits.read_marks(nested).user == "ada"


class Ended(BaseException):
    """As a greenlet is ended."""


def test_who_is_ended_while_further_places_are_asked_leaves_nothing(counters, places) -> None:
    rules = build_rules("endpoint:1", [{"requests_per_minute": 5, "concurrent": 3}])
    limited, take = endpoint_of(PAID, rate_rules=rules), places.take
    call = call_to(limited)
    call.demands_of = lambda endpoint: [call.context.demand] * 4

    def end_at_the_second(bounds):
        if places.count_own("places:endpoint:1||||"):
            raise Ended
        return take(bounds)

    places.take = end_at_the_second
    with pytest.raises(Ended):
        endpoint_limits.take_for_endpoint(call, limited)
    [window] = build_allowance(rules, endpoint_limits.read_marks(call)).windows
    assert places.count_own("places:endpoint:1||||") == 0
    assert counters.count_remaining(window) == 5


def test_who_is_ended_while_windows_are_asked_leaves_no_place(counters, places) -> None:
    def end(*limits: Limit) -> None:
        raise Ended

    counters.take = end
    limited = endpoint_of(PAID, rate_rules=ONE_AT_A_TIME)
    with pytest.raises(Ended):
        endpoint_limits.take_for_endpoint(call_to(limited), limited)
    assert places.count_own("places:endpoint:1||||") == 0


def test_what_a_rescue_s_first_part_used_counts_at_its_own_endpoint_alone(counters) -> None:
    limited = [
        endpoint_of(PAID, rate_rules=build_rules(f"endpoint:{pk}", [{"tokens_per_minute": 5000}]))
        for pk in (1, 2)
    ]
    call = call_to(*limited, max_tokens=1000)
    call.rescue = Rescue(call.context.chat)
    windows: list[Limit] = []
    for target in limited:
        taken = take(call, target)
        windows += windows_of(taken)
        call.attempts.append(attempt_at(target, limits=taken))
    broken, used = call.attempts[0], Usage(100, 20)
    endpoint_limits.settle_attempt(broken, used.total_tokens)
    call.rescue.legs.append(Leg(broken, used, FREE_OF_CHARGE))

    rate_limits.settle(call, add_usages(used, Usage(130, 7)))

    assert [counters.count_remaining(window) for window in windows] == [5000 - 120, 5000 - 137]


@pytest.mark.parametrize(("broken_off", "tokens"), [("stream", 120), ("whole", 120), ("error", 0)])
def test_what_nobody_read_of_an_answer_counts_at_its_endpoint_and_ends_its_place(
    counters, places, broken_off: str, tokens: int
) -> None:
    rules = build_rules("endpoint:1", [{"tokens_per_minute": 5000, "concurrent": 1}])
    limited = endpoint_of(PAID, rate_rules=rules, context_length=4000)
    call = call_to(limited, max_tokens=1000)
    taken = take(call, limited)
    broken = attempt_at(limited, limits=taken, first_token=2.0)
    call.attempts += [broken, attempt_at(endpoint_of("acme/other"))]
    used = {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120}

    if broken_off == "stream":
        relay: Any = SimpleNamespace(usage=used, produced_chars=80)
        note_unread(call, broken, relay)
    else:
        said = ({"content": "x" * 80}, used) if broken_off == "whole" else ({}, None)
        answer = Answer(said[0], "error", None, said[1], *[None] * 4)
        attempt_answer._note_unserved(call, broken, answer)
    assert places.count_own("places:endpoint:1||||") == 0
    rate_limits.settle(call, Usage(7, 7))

    [window] = build_allowance(rules, Marks()).windows
    assert counters.count_remaining(window) == 5000 - tokens


def test_a_request_is_settled_to_the_weights_of_the_models_that_answered(counters) -> None:
    dear, cheap = endpoint_of("acme/large"), endpoint_of(PAID)
    weighed = {"tokens_per_minute": 5000, "requests_per_minute": 9, "weights": {"acme/large": 3}}
    limited = [weighed, {"scope": {"provider": "acme"}, **weighed}]
    rules, taken = build_rules("key:1", limited), list[Limit]()
    for model_ids, answered, used in (
        (("acme/large", PAID), cheap, (1, 40)),
        (("acme/large",), dear, (3, 120)),
        ((PAID,), cheap, (1, 40)),
    ):
        call = call_to(*[{PAID: cheap}.get(each, dear) for each in model_ids], max_tokens=100)
        call.context = call.context._replace(caller=replace(call.context.caller, rate_rules=rules))
        assert rate_limits.count_request(call) is None
        assert call.limits_taken is not None
        before = [counters.count_remaining(each) for each in call.limits_taken.limits]
        # Reserved was the most of what any of them might come to.
        heaviest, most = max(3 if each == "acme/large" else 1 for each in model_ids), 5 + 16 + 100
        assert [each.cost for each in call.limits_taken.limits] == [heaviest, heaviest * most]
        at_endpoint = take(call, answered)
        taken = [*call.limits_taken.limits, *windows_of(at_endpoint)]
        before += [counters.count_remaining(each) for each in taken[2:]]
        call.attempts += [attempt_at(each) for each in (dear,) if each is not answered]
        call.attempts.append(attempt_at(answered, limits=at_endpoint))

        rate_limits.settle(call, Usage(30, 10))

        spent = [
            b + each.cost - counters.count_remaining(each)
            for b, each in zip(before, taken, strict=True)
        ]
        assert spent == [*used, *used]


def test_each_turn_of_a_loop_counts_where_it_was_answered(counters) -> None:
    credential = HouseCredential(
        1,
        *("acme", "c1", "secret", "s" * 24),
        rate_rules=build_rules("credential:1", [{"tokens_per_minute": 5000}]),
    )
    first, second = [
        endpoint_of(PAID, rate_rules=build_rules(f"endpoint:{pk}", [{"tokens_per_minute": 5000}]))
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
    assert [counters.count_remaining(window) for window in windows] == [
        5000 - 137,
        5000 - 100,
        5000 - 7,
    ]


def test_every_call_of_decisions_counts_at_its_endpoint(counters, places) -> None:
    rules = build_rules("endpoint:1", [{"requests_per_minute": 5, "concurrent": 3}])
    limited, place = endpoint_of(PAID, rate_rules=rules), "places:endpoint:1||||"
    call = call_to(limited)
    call.demands_of = lambda endpoint: [call.context.demand] * 4

    taken = take(call, limited)

    # It has as many places as there are, and whoever comes next has none.
    [window] = windows_of(taken)
    assert (counters.count_remaining(window), places.count_own(place)) == (1, 3)
    refuse(call_to(limited), limited)
    # What was never sent, because the first call was refused, is of others again.
    endpoint_limits.settle_attempt(attempt_at(limited, limits=taken, calls_sent=1), 0)
    assert (counters.count_remaining(window), places.count_own(place)) == (4, 0)

    call.demands_of = lambda endpoint: [call.context.demand] * 5
    error = endpoint_limits.build_limit_error(refuse(call, limited))
    assert "Retry-After" in error.headers
    call.demands_of = lambda endpoint: [call.context.demand] * 6
    error = endpoint_limits.build_limit_error(refuse(call, limited))
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
    limited = endpoint_of(PAID, rate_rules=shared)
    call = call_to(limited)
    rules = build_rules("key:1", own)
    call.context = call.context._replace(caller=replace(call.context.caller, rate_rules=rules))

    def headers() -> dict[str, str]:
        return rate_limits.build_limit_headers(call, call.limits_taken, now_s=counters.now)

    assert rate_limits.count_request(call) is None
    assert headers()["x-ratelimit-remaining-requests"] == "8"
    taken = take(call, limited)
    call.attempts.append(attempt_at(limited, limits=taken))
    assert headers()["x-ratelimit-limit-requests"] == "4"
    assert headers()["x-ratelimit-remaining-requests"] == "3"
    take(call, limited)
    refused = rate_limits.refuse_full(call, refuse(call, limited))
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
    limited = endpoint_of(PAID, rate_rules=ONE_AT_A_TIME)
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


@pytest.mark.parametrize(
    ("per_minute", "burst", "calls", "windows"),
    [
        (60, 10, 1, [(60, 60, 1), (10, 10, 1)]),
        (7, 1, 1, [(7, 60, 1), (1, 8, 1)]),
        (600, 10, 1, [(600, 60, 1), (10, 1, 1)]),
        # More calls than a burst have a part of a minute that is all their own.
        (60, 10, 20, [(60, 60, 20), (10, 10, 10)]),
    ],
)
def test_a_burst_is_a_window_of_its_own(
    per_minute: int, burst: int, calls: int, windows: list[tuple[int, int, int]]
) -> None:
    (rule,) = build_rules("key:1", [{"requests_per_minute": per_minute, "burst": burst}])

    found = build_allowance([rule], Marks()).list_limits(tokens=1, calls=calls)

    assert [(each.most, each.window_s, each.cost) for each in found] == windows
