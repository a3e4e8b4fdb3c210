"""Limits on managing and on wrong credentials, in process."""

import itertools
import json
from typing import Any

import pytest
from django.test import Client
from pytest_django import DjangoAssertNumQueries, Settings

from accounts.authentication import forget_keys
from accounts.models import ApiKey
from accounts.services.keys import set_disabled
from gateway.limits import MINUTE_S
from tests.accounts.office import KEYS, Office, open_office
from tests.support.windows import within_one

pytestmark = [pytest.mark.django_db, pytest.mark.both]
_numbers = itertools.count(1)


def office() -> Office:
    return open_office(f"rated-{next(_numbers)}")


def somewhere() -> str:
    """A client address that nobody was wrong from: runs share a store."""
    import secrets

    return f"198.18.{secrets.randbelow(256)}.{secrets.randbelow(256)}"


def get(key: str, *, at: str = "192.0.2.1", path: str = "/api/v1/key") -> Any:
    client = Client(headers={"Authorization": f"Bearer {key}"})
    return client.get(path, REMOTE_ADDR=at)


def statuses(office: Office, *asked: tuple[str, str]) -> list[int]:
    """What each method and path of these is answered with."""
    return [office.ask(method, path, {"name": "k"})[0] for method, path in asked]


READ, WRITE = ("GET", KEYS), ("POST", KEYS)


def test_nothing_is_limited_unless_somebody_says_so() -> None:
    assert statuses(office(), *[READ] * 30, *[WRITE] * 30) == [200] * 30 + [201] * 30


def test_reads_and_writes_are_limited_apart_per_account(settings: Settings) -> None:
    settings.RATE_MANAGEMENT_READS, settings.RATE_MANAGEMENT_WRITES = 3, 2

    def work() -> None:
        mine, other = office(), office()
        key = mine.new()["key"]  # One write.
        assert statuses(mine, READ, READ, WRITE, WRITE) == [200, 200, 201, 429]
        # Any key of the account counts, and so does what any key may read.
        assert mine.ask("GET", "/api/v1/key", key=key)[0] == 200
        assert mine.ask("GET", "/api/v1/key", key=key)[0] == 429
        assert mine.ask("GET", "/api/v1/generation?id=x", key=key)[0] == 429
        assert statuses(other, READ, WRITE) == [200, 201]
        # The catalogue is nobody's management.
        assert mine.ask("GET", "/api/v1/models", key=key)[0] == 200

    within_one(MINUTE_S, work)


def test_queries_of_analytics_are_limited_by_themselves(settings: Settings) -> None:
    settings.RATE_ANALYTICS, settings.RATE_MANAGEMENT_WRITES = 1, 1
    query = ("POST", "/api/v1/analytics/query")

    def work() -> None:
        # What is wrong with the query is told past the limit only.
        assert statuses(office(), query, query, WRITE, WRITE) == [400, 429, 201, 429]

    within_one(MINUTE_S, work)


def test_the_refusal_s_words_and_headers(settings: Settings) -> None:
    settings.RATE_MANAGEMENT_READS = 1

    def work() -> Any:
        mine = office()
        assert get(mine.management_key).status_code == 200
        refused = get(mine.management_key)
        assert refused.status_code == 429
        return refused

    refused = within_one(MINUTE_S, work)
    error = refused.json()["error"]
    assert error["message"] == "Rate limit exceeded"
    assert error["metadata"]["error_type"] == "rate_limit_exceeded"
    assert error["metadata"]["limit_source"] == "router_management_reads"
    headers = error["metadata"]["headers"]
    assert headers["X-RateLimit-Limit"] == "1"
    assert headers["X-RateLimit-Remaining"] == "0"
    assert int(headers["X-RateLimit-Reset"]) % 60_000 == 0
    assert {name: refused[name] for name in headers} == headers
    assert 1 <= int(refused["Retry-After"]) <= 60


def test_successful_answers_carry_no_such_headers(settings: Settings) -> None:
    settings.RATE_MANAGEMENT_READS = 1000

    answer = get(office().management_key)

    assert answer.status_code == 200
    assert not [name for name in answer.headers if name.startswith("X-RateLimit")]


def test_one_who_may_not_manage_does_not_count(settings: Settings) -> None:
    settings.RATE_MANAGEMENT_WRITES = 2

    def work() -> None:
        mine = office()
        key = mine.new()["key"]
        assert [mine.ask("POST", KEYS, {"name": "k"}, key=key)[0] for _ in range(3)] == [403] * 3
        assert statuses(mine, WRITE, WRITE) == [201, 429]

    within_one(MINUTE_S, work)


# --- Wrong credentials ----------------------------------------------------------------------------


def test_too_many_wrong_keys_from_one_address_are_not_looked_up(
    settings: Settings, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    settings.RATE_FAILED_CREDENTIALS = 3
    unseen = office().management_key

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


def test_good_keys_and_no_keys_do_not_count(settings: Settings) -> None:
    settings.RATE_FAILED_CREDENTIALS = 1
    key = office().management_key

    def work() -> None:
        here = somewhere()
        for _ in range(3):
            forget_keys()
            assert get(key, at=here).status_code == 200
            bare = Client().get("/api/v1/key", REMOTE_ADDR=here)
            assert bare.status_code == 401
        assert [get("nope", at=here).status_code for _ in range(2)] == [401, 429]

    within_one(MINUTE_S, work)


def test_a_key_that_was_good_goes_on_in_spite_of_a_neighbour_s_guesses(
    settings: Settings,
) -> None:
    settings.RATE_FAILED_CREDENTIALS = 1
    mine = office()

    def work() -> None:
        here = somewhere()
        assert get(mine.management_key, at=here).status_code == 200
        assert [get("nope", at=here).status_code for _ in range(2)] == [401, 429]
        assert get(mine.management_key, at=here).status_code == 200

    within_one(MINUTE_S, work)


def test_a_key_that_is_good_no_more_counts_as_wrong(settings: Settings) -> None:
    settings.RATE_FAILED_CREDENTIALS = 2

    def work() -> None:
        mine, here = office(), somewhere()
        assert get(mine.management_key, at=here).status_code == 200
        set_disabled(keys=ApiKey.objects.filter(account=mine.account), disabled=True)
        forget_keys()
        found = [get(mine.management_key, at=here).status_code for _ in range(4)]
        assert found == [401, 401, 429, 429]

    within_one(MINUTE_S, work)


def test_the_order_of_checks_is_kept(settings: Settings) -> None:
    """An account's limit comes after its key's, so that nobody learns of it without one."""
    settings.RATE_MANAGEMENT_READS = 1

    def work() -> None:
        mine = office()
        assert get(mine.management_key).status_code == 200
        assert get(mine.management_key).status_code == 429
        assert get("nope").status_code == 401

    within_one(MINUTE_S, work)


def test_the_body_is_json_as_everywhere(settings: Settings) -> None:
    settings.RATE_FAILED_CREDENTIALS = 1

    def work() -> Any:
        here = somewhere()
        return [get("nope", at=here), get("nope", at=here)][1]

    refused = within_one(MINUTE_S, work)
    assert refused["Content-Type"] == "application/json"
    assert json.loads(refused.content)["error"]["code"] == 429
