"""Limits on managing, on free requests and on wrong credentials."""

import itertools
import secrets
from dataclasses import replace
from typing import Any

import pytest
from django.test import Client
from pytest_django import DjangoAssertNumQueries, Settings

from accounts.authentication import forget_keys
from accounts.caller import read_caller
from accounts.identity import own_tokens
from accounts.keystring import hash_key
from accounts.models import ApiKey
from accounts.money import NANO_PER_USD
from accounts.rates import daily_limit, guard_lookup, read_free_requests
from accounts.services.keys import set_disabled
from gateway.limits.limits import DAY_S, MINUTE_S, Limit, rate_limiter
from tests.accounts.office import KEYS, Office, open_office
from tests.support.windows import within_one

pytestmark = [pytest.mark.django_db, pytest.mark.both]
_numbers = itertools.count(1)


def office() -> Office:
    return open_office(f"rated-{next(_numbers)}")


def somewhere() -> str:
    """A client address that nobody was wrong from: runs share a store."""
    return f"198.18.{secrets.randbelow(256)}.{secrets.randbelow(256)}"


def get(key: str, *, at: str = "192.0.2.1", path: str = "/api/v1/key") -> Any:
    client = Client(headers={"Authorization": f"Bearer {key}"})
    return client.get(path, REMOTE_ADDR=at)


def statuses(office: Office, *asked: tuple[str, str]) -> list[int]:
    """What each method and path of these is answered with."""
    return [office.call(method, path, {"name": "k"})[0] for method, path in asked]


READ, WRITE = ("GET", KEYS), ("POST", KEYS)


def test_nothing_is_limited_unless_somebody_says_so() -> None:
    assert statuses(office(), *[READ] * 30, *[WRITE] * 30) == [200] * 30 + [201] * 30


def test_reads_and_writes_are_limited_apart_per_account(settings: Settings) -> None:
    settings.RATE_MANAGEMENT_READS, settings.RATE_MANAGEMENT_WRITES = 3, 2

    def work() -> None:
        mine, other = office(), office()
        key = mine.new()["key"]  # One write.
        # One who may not manage does not count.
        assert [mine.call("POST", KEYS, {"name": "k"}, key=key)[0] for _ in range(3)] == [403] * 3
        assert statuses(mine, READ, READ, WRITE, WRITE) == [200, 200, 201, 429]
        # Any key of the account counts, and so does what any key may read.
        assert mine.call("GET", "/key", key=key)[0] == 200
        assert mine.call("GET", "/key", key=key)[0] == 429
        assert mine.call("GET", "/generation?id=x", key=key)[0] == 429
        assert statuses(other, READ, WRITE) == [200, 201]
        # The catalogue is nobody's management. Its first reading takes many queries.
        Client().get("/api/v1/models")
        assert mine.call("GET", "/models", key=key)[0] == 200

    within_one(MINUTE_S, work)


def test_queries_of_analytics_are_limited_by_themselves(settings: Settings) -> None:
    settings.RATE_ANALYTICS, settings.RATE_MANAGEMENT_WRITES = 1, 1
    query = ("POST", "/analytics/query")

    def work() -> None:
        # What is wrong with the query is told past the limit only.
        assert statuses(office(), query, query, WRITE, WRITE) == [400, 429, 201, 429]

    within_one(MINUTE_S, work)


def test_the_refusal_s_words_and_headers(settings: Settings) -> None:
    settings.RATE_MANAGEMENT_READS = 1

    def work() -> tuple[Any, Any]:
        mine = office()
        answers = get(mine.key), get(mine.key)
        assert [answer.status_code for answer in answers] == [200, 429]
        # An account's limit comes after its key's: nobody learns of it without one.
        assert get("nope").status_code == 401
        return answers

    served, refused = within_one(MINUTE_S, work)
    assert not [name for name in served.headers if name.startswith("X-RateLimit")]
    error = refused.json()["error"]
    headers = error["metadata"]["headers"]
    assert error == {
        "code": 429,
        "message": "Rate limit exceeded",
        "metadata": {
            "error_type": "rate_limit_exceeded",
            "limit_source": "router_management_reads",
            "headers": headers,
        },
    }
    reset = headers["X-RateLimit-Reset"]
    assert int(reset) % 60_000 == 0
    shown = {"X-RateLimit-Limit": "1", "X-RateLimit-Remaining": "0", "X-RateLimit-Reset": reset}
    assert headers == shown == {name: refused[name] for name in headers}
    assert 1 <= int(refused["Retry-After"]) <= 60


# --- Free requests --------------------------------------------------------------------------------


def test_free_requests_of_a_day_depend_on_what_was_bought(settings: Settings) -> None:
    settings.ROUTER_FREE_CREDIT_THRESHOLD = 10
    settings.ROUTER_FREE_RPD_LOW, settings.ROUTER_FREE_RPD_HIGH = 50, 1000
    caller = read_caller(hash_key(office().key))
    assert caller is not None
    threshold_nano = 10 * NANO_PER_USD
    buyers = [replace(caller, bought_nano=threshold_nano + more) for more in (-1, 0)]
    assert [read_free_requests(each) for each in buyers] == [(50, 0, 50), (1000, 0, 1000)]

    limit = daily_limit(buyers[0])
    assert limit is not None
    within_one(DAY_S, lambda: rate_limiter().take(limit._replace(cost=3)))
    assert read_free_requests(buyers[0]) == (50, 3, 47)
    settings.ROUTER_FREE_RPD_LOW = 2
    assert read_free_requests(buyers[0]) == (2, 3, 0)
    settings.ROUTER_FREE_RPD_LOW = 0
    assert daily_limit(buyers[0]) is None
    assert read_free_requests(buyers[0]) == (-1, 0, -1)


# --- Wrong credentials ----------------------------------------------------------------------------


def test_without_a_limit_every_credential_is_looked_up() -> None:
    assert guard_lookup(lambda: "found", limit=Limit(somewhere(), 0, MINUTE_S)) == "found"


def test_too_many_wrong_keys_from_one_address_are_not_looked_up(
    settings: Settings, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    settings.RATE_FAILED_CREDENTIALS = 3
    unseen = office().key

    def work() -> None:
        here, there = somewhere(), somewhere()
        wrong = ["nope", f"{unseen[:-1]}!", "sk-rt-v1-x"]
        assert [get(each, at=here).status_code for each in wrong] == [401] * 3
        forget_keys()
        with django_assert_num_queries(0):
            refused = get(unseen, at=here)
        assert refused.status_code == 429
        assert refused.json()["error"]["metadata"]["limit_source"] == "router_failed_credentials"
        assert get("nope", at=there).status_code == 401
        assert get(unseen, at=there).status_code == 200

    within_one(MINUTE_S, work)


def test_good_keys_and_no_keys_do_not_count_as_guesses(settings: Settings) -> None:
    settings.RATE_FAILED_CREDENTIALS = 1
    key = office().key

    def work() -> None:
        here = somewhere()
        for _ in range(3):
            forget_keys()
            assert get(key, at=here).status_code == 200
            assert Client().get("/api/v1/key", REMOTE_ADDR=here).status_code == 401
        assert [get("nope", at=here).status_code for _ in range(2)] == [401, 429]
        assert get(key, at=here).status_code == 200

    within_one(MINUTE_S, work)


def test_a_key_that_is_good_no_more_counts_as_wrong(settings: Settings) -> None:
    settings.RATE_FAILED_CREDENTIALS = 2

    def work() -> None:
        mine, here = office(), somewhere()
        assert get(mine.key, at=here).status_code == 200
        set_disabled(keys=ApiKey.objects.filter(account=mine.account), disabled=True)
        forget_keys()
        found = [get(mine.key, at=here).status_code for _ in range(4)]
        assert found == [401, 401, 429, 429]

    within_one(MINUTE_S, work)


def test_wrong_tokens_close_an_address_to_guesses_and_not_to_good_ones(settings: Settings) -> None:
    settings.RATE_FAILED_TOKENS = 3

    def work() -> None:
        here, mine = somewhere(), office()
        wrong = [f"eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiJ4In0.{number:043d}" for number in range(5)]
        found = [get(each, at=here).status_code for each in wrong]
        assert found == [401] * 3 + [429] * 2
        # Keys are no tokens, and a token of the gateway's own proves itself.
        assert get("nope", at=here).status_code == 401
        assert get(mine.key, at=here).status_code == 200
        assert get(own_tokens.issue(hash_key(mine.key)), at=here).status_code == 200
        assert get(wrong[0], at=somewhere()).status_code == 401

    within_one(MINUTE_S, work)
