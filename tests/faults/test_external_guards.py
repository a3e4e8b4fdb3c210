"""Guards and filters of answers over HTTP: what they keep back, what they cost, and what happens
when a guard does not answer."""

from collections.abc import Iterator
from contextlib import closing
from decimal import Decimal
from typing import Any, Final

import pytest

from tests.conformance.asking import BODIES, MESSAGES
from tests.conformance.desk import CHAT, Desk, nano, open_stream
from tests.conformance.guarded import set_guardrail
from tests.faults import bench
from tests.faults.bench import CHEAP_NANO
from tests.support.gateways import seed_account
from tests.support.speakers import SPEAKERS, read_stream

SOLO = bench.model("solo/model", bench.endpoint("first"))
SERVER = bench.model("one/server", bench.endpoint("first", rate_limits=[{"concurrent": 1}]))
JUDGE = bench.model("solo/judge", bench.endpoint("second"))
BAD: Final = "A text about violence."
METADATA: Final = {"X-Router-Metadata": "enabled"}


def moderation(**more: Any) -> dict[str, Any]:
    return {"kind": "moderation", "provider": "third", "action": "block", **more}


def decision(**more: Any) -> dict[str, Any]:
    return {"kind": "decision", "model": "solo/judge", "action": "block", **more}


@pytest.fixture(scope="module")
def gateway(gateway_with: Any, simulator: Any) -> Any:
    silent = bench.provider("silent", "http://127.0.0.1:9/v1")
    providers = [*bench.personas(simulator), silent]
    settings = {"API_KEY_CACHE_SECONDS": "0", "ROUTER_RESPONSE_CACHE_ENABLED": "true"}
    settings["ROUTER_KEEPALIVE_SECONDS"] = "0.1"
    return gateway_with([SOLO, SERVER, JUDGE], providers=providers, **settings)


@pytest.fixture
def desk(gateway: Any, simulator: Any) -> Iterator[Desk]:
    simulator.clear()
    yield Desk(gateway, simulator, seed_account(gateway), "solo/model")
    gateway.check_books()


def ask(desk: Desk, text: str = "Hello", *, path: str = CHAT, **more: Any) -> Any:
    body = {"model": "solo/model", **BODIES[path], "messages": [{"role": "user", "content": text}]}
    if "input" in body:
        body = {name: value for name, value in body.items() if name != "messages"}
    return desk.server.post(path, key=desk.account.api_key, headers=METADATA, json=body | more)


def charge(desk: Desk, answer: Any) -> Any:
    record = desk.generation(answer.headers["X-Generation-Id"])
    return record["total_cost"], record["tokens_prompt"], record["tokens_completion"]


def stage_of(answer: Any) -> Any:
    (stage,) = answer.json()["router_metadata"]["pipeline"]
    return stage


def test_a_moderation_keeps_requests_back_before_anybody_is_asked(desk: Desk) -> None:
    set_guardrail(desk, external_guards=[moderation(on="input")])
    refused = ask(desk, BAD)
    error = refused.json()["error"]
    assert (refused.status_code, error["metadata"]["error_type"]) == (
        403,
        "content_policy_violation",
    )
    assert error["metadata"]["reasons"] == ["violence"]
    assert stage_of(refused)["data"]["action"] == "blocked"
    assert desk.upstream.requests("first") == []
    (asked,) = desk.upstream.requests("third")
    # The gateway's own key, which the simulator does not keep.
    assert asked["headers"]["authorization"].startswith("sha256:")

    answer = ask(desk)
    record = desk.generation(answer.json()["id"])
    assert record["moderation_latency"] >= 0
    assert "pipeline" not in answer.json()["router_metadata"]
    # Thresholds take the place of the provider's own flags.
    set_guardrail(desk, external_guards=[moderation(thresholds={"violence": 0.95, "hate": 0.5})])
    assert ask(desk, BAD).status_code == 200
    assert ask(desk, "All this hate").status_code == 403


@pytest.mark.grid
@pytest.mark.parametrize("by_guard", [False, True])
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("path", BODIES)
def test_an_answer_is_kept_back_in_every_format_at_the_same_price(
    desk: Desk, path: str, stream: bool, by_guard: bool
) -> None:
    usage = {"prompt_tokens": 11, "completion_tokens": 17, "total_tokens": 28}
    desk.upstream.script("first", {"text": BAD, "usage": usage}, repeat=True)
    plain = ask(desk, path=path, stream=stream)
    if by_guard:
        set_guardrail(desk, external_guards=[moderation(on="output")])
    else:
        set_guardrail(desk, output_filters=[{"pattern": "about", "action": "block"}])
    guarded = ask(desk, path=path, stream=stream)
    assert "about" in plain.text
    assert "about" not in guarded.text
    assert ("refusal" if path == MESSAGES else "content_filter") in guarded.text
    assert charge(desk, guarded) == charge(desk, plain)
    assert charge(desk, plain)[0] > 0
    record = desk.generation(guarded.headers["X-Generation-Id"])
    assert record["finish_reason"] == "content_filter"
    assert len(desk.upstream.requests("third")) == by_guard


def test_a_decision_is_a_generation_of_the_caller_s(desk: Desk) -> None:
    desk.upstream.verdicts("second", {"when": "", "weights": {"yes": 0.8, "no": 0.2}})
    set_guardrail(desk, external_guards=[decision(on="input", threshold=0.9, question="Is it so?")])
    passed = ask(desk)
    assert passed.status_code == 200, passed.text
    own = desk.generation(passed.json()["id"])
    set_guardrail(desk, external_guards=[decision(on="input", threshold=0.7, question="Is it so?")])
    stage = stage_of(refused := ask(desk))
    assert (refused.status_code, stage["data"]["detected"]) == (403, ["unsafe"])
    assert stage["data"]["score"] == pytest.approx(0.8)
    assert stage["cost_usd"] > 0
    assert "Is it so?" in str(desk.upstream.requests("second")[-1]["body"])
    # Both looks were paid for, the refused request was not.
    spent = desk.manage("GET", "/credits").json()["data"]["total_usage"]
    assert Decimal(str(spent)) == own["total_cost"] + 2 * Decimal(str(stage["cost_usd"]))


@pytest.mark.parametrize(
    ("guard", "statuses"),
    [
        (moderation(provider="silent", on="input"), (503, "failed")),
        (moderation(provider="silent", on="input", on_failure="open"), (200, "failed")),
        (moderation(provider="silent", on="input", shadow=True), (200, "would be blocked")),
        (moderation(on="input", shadow=True), (200, "would be blocked")),
        (moderation(on="input", action="flag"), (200, "flagged")),
        (moderation(provider="silent", on="output"), (200, "blocked")),
        (decision(model="solo/judge", on="both", timeout_ms=100), (503, "blocked")),
    ],
)
def test_a_guard_that_is_silent_or_only_looks(desk: Desk, guard: Any, statuses: Any) -> None:
    status, action = statuses
    desk.upstream.verdicts("second", {"when": "", "fault": "hang"})
    set_guardrail(desk, external_guards=[guard])
    answer = ask(desk, BAD)
    assert answer.status_code == status, answer.text
    if status == 200:
        assert stage_of(answer)["data"]["action"] == action
    withheld = action == "blocked" and status == 200
    if status == 200:
        assert (answer.json()["choices"][0]["finish_reason"] == "content_filter") is withheld


@pytest.mark.grid
@pytest.mark.parametrize("tools", [[], [{"type": "router:datetime"}]], ids=["plain", "loop"])
@pytest.mark.parametrize("leaves", [False, True])
def test_a_stream_at_its_guard_keeps_its_caller_and_no_endpoint(
    gateway: Any, simulator: Any, desk: Desk, leaves: bool, tools: list[Any]
) -> None:
    usage = {"prompt_tokens": 11, "completion_tokens": 17, "total_tokens": 28}
    desk.upstream.script("first", {"text": "So it is.", "usage": usage})
    desk.upstream.script("second", {"gate": "looked"}, {"gate": "looked"})
    set_guardrail(desk, external_guards=[decision(on="output", threshold=1, timeout_ms=30_000)])
    tools_: dict[str, Any] = {"tools": tools} if tools else {}
    with closing(open_stream(desk, model="one/server", **tools_)) as caller:
        _, headers = caller.head()
        desk.upstream.wait_gate("looked")

        # Its connection lives, and the endpoint's one place is free for others.
        caller.read_until(b": ROUTER PROCESSING")
        other = Desk(gateway, simulator, seed_account(gateway), "one/server")
        assert other.ok()["usage"]["cost"] > 0
        if leaves:
            caller.close()
        desk.upstream.open_gate("looked")
        if not leaves:
            assert b"So it is." in caller.read_until(b"[DONE]")
    generation_id = headers["x-generation-id"]
    url = f"/generation?id={generation_id}"
    desk.server.wait_until(lambda: desk.manage("GET", url).status_code == 200)
    record = desk.generation(generation_id)
    assert record["tokens_completion"] == 17
    assert nano(record["total_cost"]) == 11 * CHEAP_NANO[0] + 17 * CHEAP_NANO[1]


def test_who_cannot_pay_for_a_guard_is_told_so(gateway: Any, simulator: Any, desk: Desk) -> None:
    poor = Desk(gateway, simulator, seed_account(gateway, credits_usd="0.000001"), "solo/model")
    set_guardrail(poor, external_guards=[decision(on="input")])
    refused = ask(poor)
    assert refused.json()["error"]["metadata"]["error_type"] == "payment_required", refused.text
    assert (refused.status_code, stage_of(refused)["data"]["action"]) == (402, "blocked")
    assert desk.upstream.requests() == []


def test_an_answer_that_no_guard_saw_is_not_cached(desk: Desk) -> None:
    for provider, again in (("third", "HIT"), ("silent", "MISS")):
        guard = moderation(provider=provider, on="output", on_failure="open")
        set_guardrail(desk, external_guards=[guard])
        answers = [desk.post(headers={"X-Router-Cache": "true"}) for _ in range(2)]
        found = [each.headers["X-Router-Cache-Status"] for each in answers]
        assert found == ["MISS", again]


def test_what_no_guard_can_be_is_refused(desk: Desk) -> None:
    for guards, place in (
        ([moderation(provider="nobody")], "external_guards.0.provider"),
        ([decision(model="no/body")], "external_guards.0.model"),
        ([decision(threshold=0)], "external_guards.0.decision.threshold"),
        ([moderation(timeout_ms=99)], "external_guards.0.moderation.timeout_ms"),
        ([moderation(), moderation(on="input")], "external_guards"),
        ([{"kind": "moderation", "action": "redact"}], "external_guards.0.moderation.provider"),
    ):
        with pytest.raises(AssertionError, match=place):
            set_guardrail(desk, external_guards=guards)


# --- Filters --------------------------------------------------------------------------------------

SAID: Final = "Write to ada@example.org about Project Phoenix, please."


@pytest.mark.grid
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("path", BODIES)
def test_each_format_reads_the_redacted_answer_at_the_same_price(
    desk: Desk, path: str, stream: bool
) -> None:
    usage = {"prompt_tokens": 11, "completion_tokens": 17, "total_tokens": 28}
    desk.upstream.script("first", {"text": SAID, "usage": usage}, repeat=True)
    plain = ask(desk, path=path, stream=stream)
    assert "ada@example.org" in plain.text.replace("\\u0040", "@") or stream
    set_guardrail(
        desk,
        output_filter_builtins=[{"slug": "email", "action": "redact"}],
        output_filters=[{"pattern": "Project Phoenix", "action": "redact", "label": "SECRET"}],
    )
    guarded = ask(desk, path=path, stream=stream)

    assert "ada@" not in guarded.text
    assert "Phoenix" not in guarded.text
    text = guarded.text
    if stream:
        (speaker,) = (each for each in SPEAKERS.values() if each.path == path)
        text = speaker.read_events(read_stream(guarded)).text
    assert "Write to [EMAIL] about [SECRET], please." in text
    assert charge(desk, guarded) == charge(desk, plain)


def test_a_stream_that_is_kept_back_runs_no_tools(desk: Desk) -> None:
    set_guardrail(desk, output_filters=[{"pattern": "Phoenix", "action": "block"}])
    looks = {"text": "It is Phoenix", "tool_calls": [{"name": "datetime", "arguments": {}}]}
    desk.upstream.script("first", looks)
    answer = ask(desk, stream=True, tools=[{"type": "router:datetime"}])

    assert "content_filter" in answer.text
    assert "router:datetime" not in answer.text
    assert len(desk.list_sent_bodies("first")) == 1
