"""What a second look at the request path found, one promise each."""

import json
from typing import Any

import pytest

from tests.conformance.desk import HELLO, read_stream
from tests.faults import bench
from tests.faults.bench import endpoint, model
from tests.faults.test_hang_ups import begin, open_holds

pytestmark = pytest.mark.thorough

REFUSED = {"message": {"role": "assistant", "content": None, "refusal": "No."}}


def test_without_a_context_length_an_absurd_usage_is_not_believed(desk_of: Any) -> None:
    lying = model("lie/one", endpoint("first", "sim/usage-absurd"))
    mine = desk_of([lying | {"context_length": None}])

    answer = mine.ok()

    assert answer["usage"]["prompt_tokens"] < 1000
    assert mine.paid_nano(answer) < 10**7
    assert open_holds(mine) == 0


def test_a_caller_who_leaves_puts_no_blame_on_the_endpoint(desk_of: Any) -> None:
    mine = desk_of([model("pair/x", endpoint("first"), endpoint("second", pricing=bench.DEAR))])
    mine.upstream.script("first", {"gate": "never"})
    wire = begin(mine, model="pair/x")
    mine.upstream.wait(1, "received")

    wire.close()

    mine.upstream.wait(1, "disconnected")
    mine.server.wait_until(lambda: open_holds(mine) == 0)
    assert mine.ok()["provider"] == "First"


def test_a_refusal_goes_on_to_the_next_listed_model(desk_of: Any) -> None:
    mine = desk_of([model("no/one", endpoint("first")), model("yes/one", endpoint("second"))])
    step = {"json": {"id": "x", "choices": [{"index": 0, "finish_reason": "stop", **REFUSED}]}}
    mine.upstream.script("first", step, step)
    mine.upstream.script("second", {"text": "Gladly."}, {"status": 500, "json": {}})

    answered = mine.ok(models=["yes/one"])
    refused = mine.ok(models=["yes/one"])

    assert answered["model"] == "yes/one"
    assert refused["model"] == "no/one"
    assert refused["choices"][0]["finish_reason"] == "stop"
    assert refused["choices"][0]["message"]["refusal"]
    assert mine.generation(refused["id"])["provider_name"] == "First"


def test_a_model_named_by_its_alias_too_counts_once(desk_of: Any) -> None:
    failing = model("twice/x", endpoint("first", "sim/500"), aliases=["twice/alias"])
    mine = desk_of([failing])

    mine.post(models=["twice/alias"])

    assert len(mine.sent("first")) == 1


def test_an_empty_account_is_told_before_a_missing_endpoint(desk_of: Any) -> None:
    plain = model("empty/x", endpoint("first", supported_parameters=["temperature"]))
    mine = desk_of([plain])
    broke = mine.server.manage("seed_keys", "--account", "broke", "--workspace", "w")
    tools = [{"type": "function", "function": {"name": "f"}}]

    told = mine.server.chat(key=broke["api_key"], model="empty/x", messages=HELLO, tools=tools)

    assert told.status_code == 402


def test_an_error_without_any_output_is_no_answer(desk_of: Any) -> None:
    mine = desk_of([model("mute/x", endpoint("first"))])
    empty = {
        "index": 0,
        "finish_reason": "error",
        "message": {"role": "assistant", "content": None},
    }
    mine.upstream.script("first", {"json": {"id": "x", "choices": [empty]}})

    assert mine.post().status_code == 502


def test_a_strange_error_code_is_a_bad_answer(desk_of: Any) -> None:
    mine = desk_of([model("strange/x", endpoint("first"))])
    for code in ("²", "9" * 5000, "-400"):
        mine.upstream.script("first", {"json": {"error": {"message": "odd", "code": code}}})
        assert mine.post().status_code == 502


def test_every_attempt_after_commitment_shows_its_debug_chunk(desk_on: Any) -> None:
    both = model("pair/x", endpoint("first"), endpoint("second", pricing=bench.DEAR))
    mine = desk_on([both], ROUTER_STREAM_COMMIT_SECONDS="0.1", ROUTER_IDLE_TIMEOUT="0.4")
    mine.upstream.script("first", {"events": [{"gate": "never"}]})

    stream = read_stream(mine.post(stream=True, debug={"echo_upstream_body": True}))

    assert sum("debug" in chunk for chunk in stream.chunks) == 2
    assert stream.blocks[-1] == "data: [DONE]"


def test_what_can_be_afforded_can_be_had(desk_of: Any) -> None:
    mine = desk_of([model("dear/x", endpoint("first", pricing=bench.DEAR))])
    poor = mine.server.manage(
        "seed_keys", "--account", "poor", "--workspace", "w", "--credits", "1"
    )

    def ask(tokens: int) -> Any:
        return mine.server.chat(
            key=poor["api_key"], model="dear/x", messages=HELLO, max_tokens=tokens
        )

    refused = ask(900)
    message = refused.json()["error"]["message"]
    affordable = int(message.split("can only afford ")[1].split(".")[0])

    assert refused.status_code == 402
    assert ask(affordable).status_code == 200
    assert json.loads(refused.text)["error"]["metadata"]["limit_source"] == "router_credits"


def test_a_missing_endpoint_is_told_with_its_metadata(desk_of: Any) -> None:
    mine = desk_of([model("toolless/x", endpoint("first", supported_parameters=["temperature"]))])
    tools = [{"type": "function", "function": {"name": "f"}}]

    told = mine.post(tools=tools, headers={"X-Router-Metadata": "enabled"})

    assert told.status_code == 404
    assert told.json()["router_metadata"]["attempt"] == 0
