"""Rate limits of keys and workspaces: what the API and the admin take, and what requests read."""

import json
from typing import Any

import pytest
from django.test import Client

from accounts.authentication import forget_keys
from accounts.caller import read_caller
from accounts.keystring import hash_key
from accounts.models import ApiKey, AuditRecord, User
from gateway.limits.rules import RateRule
from tests.accounts.office import KEYS, Office, at, open_office

pytestmark = [pytest.mark.django_db, pytest.mark.both]
NOTHING = dict.fromkeys(
    ("requests_per_minute", "requests_per_day", "tokens_per_minute", "concurrent", "burst")
)


@pytest.fixture
def office(db: None) -> Office:
    return open_office()


def test_limits_are_set_changed_and_taken_away(office: Office) -> None:
    limits = [{"requests_per_minute": 5, "burst": 2}, {"scope": {"user": "*"}, "concurrent": 2}]
    made = office.new(rate_limits=limits)
    assert made["data"]["rate_limits"] == [
        {**NOTHING, "requests_per_minute": 5, "burst": 2, "scope": None},
        {
            **NOTHING,
            "concurrent": 2,
            "scope": {"model": None, "provider": None, "user": "*", "tag": None},
        },
    ]
    key = ApiKey.objects.get(hash=made["data"]["hash"])
    assert key.rate_limits == limits
    caller = read_caller(hash_key(made["key"]))
    assert caller is not None
    owner = f"key:{key.pk}"
    assert caller.rate_rules == (
        RateRule(owner, None, None, None, None, 5, None, None, None, 2),
        RateRule(owner, None, None, "*", None, None, None, None, 2),
    )
    # Without limits of its own it has its workspace's.
    office.ok("PATCH", at(made), {"rate_limits": []})
    office.ok("PATCH", "/workspaces/default", {"rate_limits": [{"tokens_per_minute": 9}]})
    forget_keys()
    caller = read_caller(hash_key(made["key"]))
    assert caller is not None
    (rule,) = caller.rate_rules
    assert (rule.owner, rule.tokens_per_minute) == (f"workspace:{key.workspace_id}", 9)
    record = AuditRecord.objects.filter(object_type="key").latest("pk")
    assert record.before
    assert record.after
    assert (record.before["rate_limits"], record.after["rate_limits"]) == (limits, None)


@pytest.mark.parametrize(
    ("limit", "words"),
    [
        ({}, "expected one of requests_per_minute"),
        ({"scope": {"user": "a"}}, "expected one of requests_per_minute"),
        ({"requests_per_minute": 0}, "requests_per_minute"),
        ({"requests_per_minute": 5, "burst": 6}, "at most requests_per_minute"),
        ({"requests_per_day": 5, "burst": 1}, "at most requests_per_minute"),
        ({"requests_per_minute": 601, "burst": 10}, "at least a sixtieth"),
        ({"requests_per_minute": True}, "requests_per_minute"),
        ({"requests_per_hour": 5, "concurrent": 1}, "requests_per_hour"),
        ({"scope": {"team": "a"}, "concurrent": 1}, "team"),
        ({"scope": {"tag": "team"}, "concurrent": 1}, "tag"),
        ({"scope": {"model": "acme/none"}, "concurrent": 1}, "not a valid model"),
        ({"scope": {"provider": "none"}, "concurrent": 1}, "not a known provider"),
    ],
)
def test_what_limits_nothing_known_is_refused(office: Office, limit: Any, words: str) -> None:
    # The catalogue's first reading takes queries of its own.
    Client().get("/api/v1/models")
    text = office.refused(400, "POST", KEYS, {"name": "k", "rate_limits": [limit]})
    assert words in str(text)
    text = office.refused(400, "PATCH", "/workspaces/default", {"rate_limits": [limit]})
    assert words in str(text)


def test_an_operator_types_limits_as_the_api_takes_them(office: Office) -> None:
    made = office.new()
    key = ApiKey.objects.get(hash=made["data"]["hash"])
    client = Client()
    client.force_login(User.objects.create_superuser("op", password="x"))
    path = f"/admin/accounts/apikey/{key.pk}/change/"
    form = {"name": "k", "workspace": str(key.workspace_id), "limit_enforcement": "block"}

    wrong = client.post(path, form | {"rate_limits": json.dumps([{"concurrent": 0}])})
    assert "concurrent" in wrong.content.decode()
    client.post(path, form | {"rate_limits": json.dumps([{"concurrent": 4}])})
    key.refresh_from_db()
    assert key.rate_limits == [{"concurrent": 4}]
