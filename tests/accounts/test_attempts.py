"""Records of credentials that were presented: each way is on record, and a flood leaves few."""

from collections.abc import Iterator
from typing import Any
from urllib.parse import urlencode

import pytest
from django.test import Client

from accounts.models import AuditRecord, TrustedIssuer, User
from accounts.services.attempts import RECORDS_MAX, AttemptCounter, forget_attempts
from accounts.services.records import SYSTEM
from accounts.services.workloads import create_workload
from accounts.sign_in import BOUNDS
from gateway.limits.limits import MINUTE_S
from tests.accounts.office import open_office
from tests.accounts.test_workloads import EXCHANGE, TYPES, forget
from tests.support.issuer import Issuer
from tests.support.windows import within_one

pytestmark = [pytest.mark.django_db, pytest.mark.both]


@pytest.fixture(autouse=True)
def anew(settings: Any) -> Iterator[None]:
    settings.IDENTITY_PRIVATE_HOSTS = ("127.0.0.1",)
    forget()
    forget_attempts()
    yield
    forget()


def list_records(object_type: str) -> list[tuple[str, Any, Any]]:
    """Action, account and facts of each."""
    rows = AuditRecord.objects.filter(object_type=object_type).order_by("pk")
    return [(row.action, row.account_id, row.after) for row in rows]


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_powers_of_ten_are_worth_a_record_in_each_ten_minutes() -> None:
    clock = Clock()
    counter = AttemptCounter(clock)

    found = [counter.count("x", "192.0.2.1") for _ in range(10_000)]

    assert [each.number for each in found if each] == [1, 10, 100, 1_000, 10_000]
    assert counter.count("y", "192.0.2.1") is not None
    clock.now = 600.0
    assert counter.count("x", "192.0.2.1") == (1, "192.0.2.1")


def test_ever_new_addresses_share_their_records() -> None:
    clock = Clock()
    counter = AttemptCounter(clock)

    found = [counter.count("x", f"address-{each}") for each in range(10_000)]

    told = [each for each in found if each]
    assert len([each for each in told if each.number == 1]) == RECORDS_MAX + 1
    assert told[RECORDS_MAX:] == [(number, "other addresses") for number in (1, 10, 100, 1_000)]
    clock.now = 60.0
    assert counter.count("x", "another") == (1, "another")


def test_tokens_that_are_refused_are_on_record_where_their_account_sees_it() -> None:
    office, issuer = open_office(), Issuer()
    trusted = TrustedIssuer.objects.create(
        account=office.account, name="CI", url=issuer.url, audience="gateway"
    )
    create_workload(
        issuer=trusted, name="builds", conditions={"sub": "repo:acme/*"}, by=SYSTEM,
        workspace=office.account.workspaces.get(),
    )  # fmt: skip
    for _ in range(11):
        assert office.call("GET", "/key", key=issuer.make_token(aud="another"))[0] == 401
    assert office.call("GET", "/key", key="eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiJ4In0.x")[0] == 401
    issuer.stop()

    refused = list_records("token")

    assert [(what, whose, after["times"]) for what, whose, after in refused] == [
        ("refused", office.account.pk, 1),
        ("refused", office.account.pk, 10),
    ]
    assert all("udience" in after["reason"] for _, _, after in refused)


def exchange(token: str) -> int:
    form = {"grant_type": EXCHANGE, "subject_token_type": f"{TYPES}access_token"}
    body, kind = urlencode(form | {"subject_token": token}), "application/x-www-form-urlencoded"
    return Client().post("/api/v1/oauth/token", body, content_type=kind).status_code


def test_exchanges_of_tokens_and_codes_are_on_record() -> None:
    office = open_office()
    key = office.new()["key"]
    assert [exchange(each) for each in (key, "sk-wrong")] == [200, 401]
    code = office.ok("POST", "/auth/keys/code", {"callback_url": "https://app.example"})["data"]
    for each in ("wrong", code["id"]):
        body = {"code": each, "code_verifier": "x" * 43}
        sent = Client().post("/api/v1/auth/keys", body, content_type="application/json")
        assert sent.status_code == 403

    assert list_records("token") == [
        ("exchanged", office.account.pk, {"times": 1}),
        ("exchange refused", None, {"times": 1, "reason": "Invalid API key"}),
    ]
    facts = {"times": 1, "reason": "Invalid code or code_verifier"}
    assert list_records("authorization_code") == [
        ("exchange refused", None, facts | {"app_id": None}),
        ("exchange refused", office.account.pk, facts | {"app_id": code["app_id"]}),
    ]


def test_who_signs_in_too_often_is_on_record(settings: Any) -> None:
    User.objects.create_user("ada", password="right horse")
    form = {"login": "ada", "password": "wrong"}
    for _ in range(BOUNDS["pair"].tries + 4):
        Client().post("/console/sign-in", form)
    settings.RATE_SIGN_INS = 1

    def work() -> None:
        from secrets import randbelow

        forget_attempts()
        here = Client(REMOTE_ADDR=f"198.18.{randbelow(256)}.{randbelow(256)}")
        answers = [here.post("/console/sign-in", form).status_code for _ in range(2)]
        assert answers[1] == 429

    within_one(MINUTE_S, work)
    reasons = [
        after["reason"] for what, _, after in list_records("sign_in") if what == "turned away"
    ]
    assert reasons[0] == "too many wrong passwords"
    assert reasons[-1] == "too many forms"
