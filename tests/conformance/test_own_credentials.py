"""Calls on a team's own credentials (management reference 13): which key reaches the upstream and
what the caller is told of it."""

from collections.abc import Callable
from contextlib import AbstractContextManager

import pytest

from tests.conformance.asking import BODIES, MESSAGES, RESPONSES
from tests.conformance.desk import CHAT, HELLO, Desk, exact, nano
from tests.conformance.own_credentials import (
    MINE,
    SHARED,
    ask,
    bring,
    credentials_at,
    fingerprint,
    priced_nano,
    refusal,
)
from tests.conformance.wide import LONE
from tests.support.gateways import seed_account
from tests.support.server import GatewayServer, as_json

Orm = Callable[[GatewayServer], AbstractContextManager[None]]
ANOTHER, THIRD = "sk-another-0123456789abcd", "sk-third-0123456789abcdef"
METADATA = {"X-Router-Metadata": "enabled"}


@pytest.fixture
def desk(own_wide_desk: Desk) -> Desk:
    return own_wide_desk


def test_a_call_goes_out_with_the_team_s_key_and_costs_nothing(desk: Desk) -> None:
    made = bring(desk, "gamma", MINE)

    answer = desk.ok(headers=METADATA)

    assert credentials_at(desk) == [fingerprint(MINE)]
    usage = answer["usage"]
    assert (usage["cost"], usage["is_byok"]) == (0, True)
    assert nano(usage["cost_details"]["upstream_inference_cost"]) == priced_nano(usage) > 0
    assert answer["router_metadata"]["is_byok"] is True
    assert desk.paid_nano(answer) == 0
    record = desk.generation(answer["id"])
    assert (record["is_byok"], record["usage"], record["total_cost"]) == (True, 0, 0)
    assert nano(record["upstream_inference_cost"]) == priced_nano(usage)
    assert [each["is_byok"] for each in record["provider_responses"]] == [True]
    assert made["id"] not in repr(answer)


def test_failure_falls_through_to_the_shared_credential(own_desk: Desk) -> None:
    """Where failures are remembered for a while."""
    desk = own_desk
    bring(desk, "gamma", MINE)
    desk.upstream.script("gamma", refusal(401))

    answer = desk.ok(headers=METADATA)

    assert credentials_at(desk) == [fingerprint(MINE), SHARED]
    assert answer["usage"]["is_byok"] is False
    told = answer["router_metadata"]
    assert (told["is_byok"], told["attempt"]) == (False, 2)
    assert [each["status"] for each in told["attempts"]] == [401, 200]
    assert desk.paid_nano(answer) == priced_nano(answer["usage"])
    record = desk.generation(answer["id"])
    assert record["is_byok"] is False
    assert [each["is_byok"] for each in record["provider_responses"]] == [True, False]
    # It rests: the next call does not wait for it, and others never did.
    desk.ok()
    Desk(desk.server, desk.upstream, seed_account(desk.server)).ok()
    assert credentials_at(desk)[2:] == [SHARED, SHARED]
    # Another provider's credential makes none of this one's calls the team's.
    bring(desk, "alpha", ANOTHER)
    details = desk.ok()["usage"]["cost_details"]
    assert details["upstream_inference_cost"] is None


def test_all_of_them_are_tried_in_their_places(desk: Desk) -> None:
    bring(desk, "gamma", MINE)
    bring(desk, "gamma", ANOTHER, is_fallback=True)
    bring(desk, "gamma", THIRD)
    desk.upstream.script("gamma", refusal(429), refusal(403), refusal(429))

    answer = desk.ok()

    tried = [fingerprint(MINE), fingerprint(THIRD), SHARED, fingerprint(ANOTHER)]
    assert credentials_at(desk) == tried
    assert answer["usage"]["is_byok"] is True
    assert desk.paid_nano(answer) == 0


@pytest.mark.parametrize("said", ["is_required", "is_byok_only"])
def test_a_team_may_refuse_the_gateway_s_credential(desk: Desk, said: str) -> None:
    made = bring(desk, "gamma", MINE, **{said: True})
    desk.upstream.script("gamma", refusal(401))

    answer = desk.post()

    assert answer.status_code == 401, answer.text
    assert credentials_at(desk) == [fingerprint(MINE)]
    assert desk.total_usage_nano() == 0
    # Nothing of the provider is served where the team's key is for other models.
    ask(desk, "PATCH", f"/{made['id']}", {"allowed_models": ["acme/small"]})
    if said == "is_byok_only":
        error = desk.check_error(desk.post(), 404, "not_found")
        assert "Own Credentials Only" in repr(error)
        assert credentials_at(desk) == [fingerprint(MINE)]


@pytest.mark.parametrize(("path", "stream"), [(CHAT, True), (MESSAGES, False), (RESPONSES, True)])
def test_every_format_tells_of_it(desk: Desk, path: str, stream: bool) -> None:
    bring(desk, "messages-a", MINE)
    bring(desk, "gamma", ANOTHER)
    body = BODIES[path]
    for model, key in (("acme/over-anthropic", MINE), ("acme/solo", ANOTHER)):
        given = body | {"model": model, "stream": stream}
        answer = desk.server.post(path, key=desk.account.api_key, json=given)
        assert answer.status_code == 200, answer.text
        said = answer.text.replace(" ", "")
        assert '"is_byok":true' in said
        assert '"is_byok":false' not in said
        assert credentials_at(desk)[-1] == fingerprint(key)
        record = desk.generation(answer.headers["X-Generation-Id"])
        assert (record["is_byok"], record["usage"]) == (True, 0)
        assert record["upstream_inference_cost"] > 0


def test_prompts_are_counted_with_it(desk: Desk) -> None:
    bring(desk, "messages-a", MINE)
    body = {"model": "acme/over-anthropic", "messages": HELLO}

    answer = desk.server.post(f"{MESSAGES}/count_tokens", key=desk.account.api_key, json=body)

    assert answer.status_code == 200, answer.text
    assert credentials_at(desk) == [fingerprint(MINE)]


# --- Failures -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "caller_status", "error_type", "stream"),
    [
        (401, 401, "authentication", False),
        (429, 429, "rate_limit_exceeded", True),
        (500, 502, "provider_unavailable", True),
        (404, 404, "not_found", False),
    ],
)
def test_what_the_provider_says_of_the_team_s_key_is_told(
    desk: Desk, status: int, caller_status: int, error_type: str, stream: bool
) -> None:
    bring(desk, "lone", MINE)
    desk.upstream.script("lone", refusal(status, f"Bad key {MINE}"))

    response = desk.post(model=LONE, stream=stream, headers=METADATA)

    error = desk.check_error(response, caller_status, error_type)
    assert error["metadata"]["is_byok"] is True
    assert "limit_source" not in error["metadata"]
    assert MINE not in response.text
    assert credentials_at(desk) == [fingerprint(MINE)]
    told = as_json(response)["router_metadata"]
    assert (told["is_byok"], told["attempt"]) == (False, 1)
    record = desk.generation(response.headers["X-Generation-Id"])
    # None served the call.
    assert (record["usage"], record["is_byok"]) == (0, False)
    assert record["provider_responses"][0]["is_byok"] is True


def test_a_key_that_does_not_open_is_passed_over(desk: Desk, orm_of: Orm) -> None:
    for provider in ("gamma", "lone"):
        bring(desk, provider, MINE)
    # A provider without a shared credential serves the team.
    assert desk.ok(model=LONE)["usage"]["is_byok"] is True
    assert credentials_at(desk) == [fingerprint(MINE)]
    with orm_of(desk.server):
        from accounts.models import ByokCredential

        ours = ByokCredential.objects.filter(workspace__id=desk.account.workspace_id)
        ours.update(sealed="v1:" + "A" * 60)

    assert desk.ok()["usage"]["is_byok"] is False
    assert credentials_at(desk)[1:] == [SHARED]
    assert desk.post(model=LONE).status_code == 503


def test_rotation_disabling_and_deletion_work_at_once(desk: Desk) -> None:
    path = f"/{bring(desk, 'gamma', MINE)['id']}"
    desk.ok()
    for body, key in (({"key": ANOTHER}, ANOTHER), ({"disabled": True}, None)):
        changed = ask(desk, "PATCH", path, body)
        assert changed.status_code == 200, changed.text
        desk.upstream.clear()
        desk.ok()
        assert credentials_at(desk) == [fingerprint(key) if key else SHARED]
    assert ask(desk, "PATCH", path, {"disabled": False}).status_code == 200
    assert as_json(ask(desk, "DELETE", path)) == {"deleted": True}
    desk.upstream.clear()
    assert exact(desk.post())["usage"]["is_byok"] is False
    assert credentials_at(desk) == [SHARED]
