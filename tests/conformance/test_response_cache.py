"""The response cache, in every caller format over every wire kind."""

import json
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from typing import Any

import pytest
import requests

from tests.conformance.desk import Desk, changed_workspace, exact, nano
from tests.conformance.desk import read_stream as read_chat_stream
from tests.conformance.pairs import Pair
from tests.support.gateways import seed_account
from tests.support.speakers import SPEAKERS, Said, read_stream

ON = {"X-Router-Cache": "true"}
CALL = {"name": "weather", "arguments": {"city": "Bern"}}


@pytest.fixture
def desk(own_wide_desk: Desk) -> Desk:
    own_wide_desk.model = "acme/over-openai"
    return own_wide_desk


def read_answer(pair: Pair, response: requests.Response, *, stream: bool) -> Said:
    if stream:
        streamed = read_stream(response)
        assert streamed.done
        return pair.speaker.read_events(streamed)
    return pair.speaker.read_answer(exact(response))


def status(response: requests.Response) -> str | None:
    return response.headers.get("X-Router-Cache-Status")


def statuses(*responses: requests.Response) -> list[str | None]:
    return [status(response) for response in responses]


@pytest.mark.grid
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("speaker", SPEAKERS)
def test_the_same_request_is_answered_from_the_cache(
    own_wire_desk: Desk, kind: str, speaker: str, stream: bool
) -> None:
    pair = Pair(SPEAKERS[speaker], kind, own_wire_desk)
    pair.script({"reasoning": "Hm.", "text": "Once.", "tool_calls": [CALL]}, {"text": "Twice."})
    metadata = {**ON, "X-Router-Metadata": "enabled"}
    server, key, body = pair.desk.server, pair.desk.account.api_key, pair.body(stream=stream)
    first, second = (
        server.post(pair.speaker.path, key=key, json=body, headers=metadata) for _ in range(2)
    )

    assert statuses(first, second) == ["MISS", "HIT"]
    assert "X-Router-Cache-Age" not in first.headers
    assert 0 <= int(second.headers["X-Router-Cache-Age"]) <= 60
    assert 240 <= int(second.headers["X-Router-Cache-TTL"]) <= 300
    source = second.headers["X-Router-Cache-Source-Id"]
    assert source == first.headers["X-Generation-Id"] != second.headers["X-Generation-Id"]
    assert len(pair.list_sent_bodies()) == 1
    one, other = (read_answer(pair, each, stream=stream) for each in (first, second))
    assert (one.text, one.reasoning, one.calls) == (other.text, other.reasoning, other.calls)
    assert (one.finish, one.model, one.provider) == (other.finish, other.model, other.provider)
    assert other.cost_nano == 0
    assert other.usage is not None
    assert tuple(other.usage) == (0, 0, 0, 0)
    assert "router_metadata" in first.text
    assert "router_metadata" not in second.text
    assert own_id(first) != own_id(second)


def own_id(response: requests.Response) -> str:
    """The one id of the answer's own, of all its events where it is a stream."""
    blocks = [line.removeprefix("data: ") for line in response.text.split("\n") if "{" in line]
    kinds = {"chat.completion", "chat.completion.chunk", "response"}
    found: set[str] = set()
    for value in map(json.loads, blocks):
        for each in (value, value.get("response"), value.get("message")):
            if isinstance(each, dict) and (each.get("object") in kinds or each.get("role")):
                found.add(each["id"])
    (its_id,) = found
    return its_id


def test_a_hit_is_recorded_and_charged_nothing(desk: Desk) -> None:
    first, second = (desk.post(headers=ON) for _ in range(2))

    paid = nano(exact(first)["usage"]["cost"])
    answer = exact(second)
    assert paid > 0
    assert answer["id"] == second.headers["X-Generation-Id"]
    assert desk.charged_nano(first.headers["X-Generation-Id"]) == paid
    assert desk.charged_nano(answer["id"]) == 0
    record, source = desk.generation(answer["id"]), desk.generation(exact(first)["id"])
    assert record["response_cache_source_id"] == exact(first)["id"]
    assert source["response_cache_source_id"] is None
    for same in ("model", "provider_name", "finish_reason"):
        assert record[same] == source[same]
    assert record["tokens_prompt"] == record["tokens_completion"] == 0
    # A repeated key gets the answer it had.
    once = {**ON, "Idempotency-Key": "same"}
    hit, again = (desk.post(headers=once) for _ in range(2))
    assert status(hit) == "HIT"
    assert exact(again) == exact(hit)


def test_what_is_not_cached(desk: Desk, own_desk: Desk) -> None:
    echo: dict[str, Any] = {"stream": True, "debug": {"echo_upstream_body": True}}
    not_asked: list[dict[str, str]] = [{}, {"X-Router-Cache": "false"}, {"X-Router-Cache": "yes"}]
    asked: list[dict[str, Any]] = [{"headers": headers} for headers in not_asked]
    # What was sent upstream, and what is of those who want nothing retained.
    private = {"model": "acme/small", "provider": {"zdr": True}}
    for body in (*asked, echo | {"headers": ON}, private | {"headers": ON}):
        answers = [desk.post(**body) for _ in range(2)]
        assert {answer.status_code for answer in answers} == {200}
        assert statuses(*answers) == [None, None], body
    assert len(desk.upstream.requests()) == 10
    # An installation without it knows no such header.
    assert statuses(*(own_desk.post(headers=ON) for _ in range(2))) == [None, None]


def test_keys_of_a_workspace_that_wants_it_share_answers_in_any_order_of_properties(
    desk: Desk,
) -> None:
    team = Desk(desk.server, desk.upstream, seed_account(desk.server), desk.model)
    body = {"name": "other", "workspace_id": team.account.workspace_id}
    other = team.manage("POST", "/keys", body).json()["key"]
    bound = team.manage("POST", "/keys", body | {"allowed_models": [desk.model]}).json()["key"]
    changed_workspace(team, response_cache=True)
    said = {"model": desk.model, "messages": [{"role": "user", "content": "Hello there"}]}
    turned = dict(reversed(said.items()))

    def ask(key: str, body: dict[str, Any], headers: dict[str, str] | None = None) -> str | None:
        path = "/api/v1/chat/completions"
        return status(desk.server.post(path, key=key, json=body, headers=headers or {}))

    assert ask(team.account.api_key, said) == "MISS"
    assert ask(other, turned) == "HIT"
    assert ask(other, said, {"X-Router-Cache": "false"}) is None
    # Who is held to other models might have had another answer.
    assert ask(bound, said) == "MISS"
    # No other account is answered from it.
    assert ask(desk.account.api_key, said, ON) == "MISS"


def test_a_refresh_takes_the_place_and_failures_are_not_kept(desk: Desk) -> None:
    desk.upstream.script("chat-a", {"fault": "422"}, {"text": "Old."}, {"text": "New."})
    assert desk.post(headers=ON).status_code == 422
    said = []
    for headers in (ON, {**ON, "X-Router-Cache-Clear": "true"}, ON):
        response = desk.post(headers=headers)
        said.append((status(response), exact(response)["choices"][0]["message"]["content"]))

    assert said == [("MISS", "Old."), ("MISS", "New."), ("HIT", "New.")]


# --- The same request several times at once: one call, one charge, an answer for each ---------

AT_ONCE = 3
SHARE = {"X-Router-Share": "true"}
HELD: dict[str, Any] = {"text": "Once.", "gate": "held"}
COLD: dict[str, Any] = {"temperature": 0}


@pytest.fixture
def limited_desk(own_wide_desk: Desk) -> Desk:
    """Of a key that has three requests under way at most."""
    limits = {"rate_limits": [{"concurrent": AT_ONCE}]}
    path = f"/keys/{own_wide_desk.account.api_key_hash}"
    assert own_wide_desk.manage("PATCH", path, limits).status_code == 200
    own_wide_desk.model = "acme/over-openai"
    return own_wide_desk


def post_at_once(
    desk: Desk, *steps: dict[str, Any], first: dict[str, Any] = HELD, **asked: Any
) -> list[requests.Response]:
    """The answers to a request that is sent three times, while the first is held upstream."""
    desk.upstream.script("chat-a", first, *steps)
    with ThreadPoolExecutor(AT_ONCE + 1) as pool:
        sent = [pool.submit(desk.post, **asked)]
        desk.upstream.wait_gate("held")
        sent += [pool.submit(desk.post, **asked) for _ in range(AT_ONCE)]
        # Once one is refused, the places are full: the others are under way.
        (refused,) = wait(sent, return_when=FIRST_COMPLETED).done
        assert refused.result().status_code == 429
        sent.remove(refused)
        desk.upstream.open_gate("held")
        return [each.result() for each in sent]


def test_whole_answers_that_would_be_the_same_are_shared(limited_desk: Desk) -> None:
    first, *others = post_at_once(limited_desk, {"text": "Twice."}, **COLD)

    assert len(limited_desk.upstream.requests("chat-a")) == 1
    assert status(first) is None
    assert limited_desk.charged_nano(first.headers["X-Generation-Id"]) > 0
    assert len({each.headers["X-Generation-Id"] for each in (first, *others)}) == AT_ONCE
    for each in others:
        assert status(each) == "SHARED"
        assert each.headers["X-Router-Cache-Source-Id"] == first.headers["X-Generation-Id"]
        assert exact(each)["choices"][0]["message"]["content"] == "Once."
        assert exact(each)["usage"]["cost"] == 0
        assert limited_desk.charged_nano(each.headers["X-Generation-Id"]) == 0
    # It has ended: whoever asks now asks anew.
    assert limited_desk.ok(**COLD)["choices"][0]["message"]["content"] == "Twice."


def test_a_stream_is_shared_where_it_is_asked_for(limited_desk: Desk) -> None:
    answers = post_at_once(limited_desk, headers=SHARE, stream=True)

    assert len(limited_desk.upstream.requests("chat-a")) == 1
    assert [status(each) for each in answers] == [None, "SHARED", "SHARED"]
    assert {read_chat_stream(each).text for each in answers} == {"Once."}


def test_where_the_first_fails_the_next_asks(limited_desk: Desk) -> None:
    fault = {"fault": "422", "gate": "held"}
    answers = post_at_once(limited_desk, {"text": "Then."}, first=fault, **COLD)

    assert [each.status_code for each in answers] == [422, 200, 200]
    assert len(limited_desk.upstream.requests("chat-a")) == 2
    assert sorted(str(status(each)) for each in answers[1:]) == ["None", "SHARED"]


def test_who_waits_for_an_answer_that_is_too_large_asks_at_once(limited_desk: Desk) -> None:
    large = {**HELD, "text": "word " * 40_000}
    answers = post_at_once(
        limited_desk, {"text": "Twice."}, {"text": "Thrice."}, first=large, **COLD
    )

    assert [status(each) for each in answers] == [None] * AT_ONCE
    assert len(limited_desk.upstream.requests("chat-a")) == AT_ONCE
