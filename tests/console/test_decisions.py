"""The page Decisions: sums of what a view sees, and what was measured for the account alone."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from accounts.models import Account, ApiKey
from routing.decisions.calibration import Example, build_report
from routing.history.models import DecisionCalibration
from tests.console.people import Team, ask, make_team

pytestmark = [pytest.mark.django_db, pytest.mark.both]


def decide(key: ApiKey, masses: dict[str, float], ago: timedelta, **fields: Any) -> None:
    at = datetime.now(UTC) - ago
    record = {"questions": 2, "methods": {"logprobs": 2}, "label_mass": masses}
    usual = {"api_type": "decisions", "model": "acme/judge", "detail": {"decisions": record}}
    ask(key, f"gen-dec-{int(at.timestamp())}-{key.pk}", ago=ago, **usual | fields)


def measure(account: Account, model: str) -> None:
    report = build_report([Example((0.9, 0.1), 0), Example((0.8, 0.2), 1)])
    told = {"accuracy": 0.5, "calibration_error": 0.3, "bins": [b._asdict() for b in report.bins]}
    DecisionCalibration.objects.create(
        account_id=account.pk,
        model=model,
        measured_at=datetime.now(UTC),
        temperature=1.5,
        is_applied=False,
        answers=2,
        before=told,
        after=told,
        questions={"refund": {"answers": 2, **told}},
    )


def read_rows(client: Client) -> list[list[str]]:
    csv = client.get(reverse("console:decisions"), {"csv": "1"}).text.splitlines()
    return [row.split(",") for row in csv[1:]]


def test_sums_are_of_what_the_view_sees(team: Team) -> None:
    hour, month = timedelta(hours=1), timedelta(days=40)
    decide(team.keys["own"], {"refund": 0.99, "team": 0.4}, hour)
    decide(team.keys["far"], {"refund": 0.3}, hour)
    # Neither too old ones nor other requests count.
    decide(team.keys["led"], {"refund": 0.3}, month)

    assert [row[:3] for row in read_rows(team.client("admin"))] == [["acme/judge", "2", "4"]]
    assert read_rows(team.client("member"))[0][1:3] == ["1", "2"]
    page = team.client("admin").get(reverse("console:decisions")).text
    assert ("refund" in page, "66.67 %" in page) == (True, True)


def test_a_measurement_is_shown_to_its_account(team: Team) -> None:
    measure(team.account, "acme/judge")
    measure(make_team("theirs").account, "theirs/judge")

    page = team.client("member").get(reverse("console:decisions")).text

    assert ("How far to trust acme/judge" in page, "theirs/judge" in page) == (True, False)
    assert page.count("1 answers, 90% sure, 100% right") == 2
    assert 'data-label="Question">refund' in page
