"""Mid-stream rescue: the next endpoint continues what an upstream breaks off, for every caller
format at every wire kind. The caller sees the seam, both parts are charged, and no call comes
twice.
"""

import random
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any

import pytest

from routing.simulator.testing import SimulatedUpstream
from tests.conformance.asking import PERSONAS
from tests.conformance.desk import nano, open_stream
from tests.conformance.guarded import set_guardrail
from tests.conformance.pairs import HELLO, Pair
from tests.faults.bench import CHEAP_NANO, endpoint, model
from tests.faults.conftest import GatewayWith
from tests.faults.two_places import gateway_of_pairs, order_of, pair_of, script
from tests.support.server import GatewayServer
from tests.support.speakers import SPEAKERS, Call, Streamed, read_stream

BEGUN = [{"text": "One two "}, {"text": "thr"}]
SAID = "One two thr"
CUT = {"cut": "reset"}
STREAMS, KILLED = 200, 0.3
LARGEST_BYTES = 100_000
TOOL = {"name": "look", "description": "Look.", "parameters": {"type": "object"}}


@pytest.fixture(scope="module")
def server(gateway_with: GatewayWith, simulator: SimulatedUpstream) -> Any:
    running = gateway_of_pairs(
        gateway_with,
        simulator,
        model("openai/alone", endpoint("openai-a")),
        API_KEY_CACHE_SECONDS="0",
        ROUTER_ENDPOINT_RETRIES="1",
        ROUTER_RETRY_FLOOR="1000",
        ROUTER_MAX_ANSWER_BYTES=str(LARGEST_BYTES),
    )
    yield running
    running.check_books()


def sent_to(pair: Pair, place: str) -> list[dict[str, Any]]:
    entries = pair.desk.upstream.requests(f"{PERSONAS[pair.kind]}-{place}")
    return [entry["body"] for entry in entries]


def wish(kind: str, **more: Any) -> dict[str, Any]:
    return {"order": order_of(kind), "rescue": True, **more}


def ask(pair: Pair, **options: Any) -> Streamed:
    given: dict[str, Any] = {"model": f"{pair.kind}/pair", "provider": wish(pair.kind)} | options
    return read_stream(pair.post(stream=True, **given))


def seams(streamed: Streamed) -> list[dict[str, Any]]:
    return [value["router_rescue"] for value in streamed.values if "router_rescue" in value]


def record_of(pair: Pair, streamed: Streamed) -> Any:
    return pair.desk.generation(streamed.response.headers["X-Generation-Id"])


def last_texts(body: dict[str, Any]) -> list[str]:
    """The last messages of a request in any wire format, as texts."""
    items = body.get("messages") or body["input"]
    texts = []
    for item in items[-2:]:
        content = item["content"]
        parts = content if isinstance(content, list) else [{"text": content}]
        texts.append("".join(part["text"] for part in parts))
    return texts


@pytest.mark.grid
@pytest.mark.parametrize("kind", PERSONAS)
@pytest.mark.parametrize("speaker", SPEAKERS)
def test_the_rest_comes_from_the_next_endpoint_and_both_parts_are_charged(
    speaker: str, kind: str, server: GatewayServer, simulator: SimulatedUpstream
) -> None:
    pair = pair_of(server, simulator, speaker, kind)
    script(pair, "a", {"events": [*BEGUN, CUT]})
    script(pair, "b", {"text": "ee four"})

    streamed = ask(pair)

    said = pair.speaker.read_events(streamed)
    assert (said.text, said.finish, said.failure) == (f"{SAID}ee four", "stop", None)
    [seam] = seams(streamed)
    assert seam["from"]["provider"] == f"{kind}-a".capitalize()
    assert seam["to"]["provider"] == f"{kind}-b".capitalize()
    assert seam["said_chars"] == len(SAID)
    [body] = sent_to(pair, "b")
    if kind == "anthropic":
        assert last_texts(body) == [HELLO, SAID]
    else:
        assert last_texts(body)[0] == SAID
        assert "Continue" in last_texts(body)[1]
    record = record_of(pair, streamed)
    assert [each["status"] for each in record["provider_responses"]] == [502, 200]
    prompt, completion = record["native_tokens_prompt"], record["native_tokens_completion"]
    assert prompt >= 2 * (len(HELLO) // 4)
    assert said.usage is not None
    assert (said.usage.prompt, said.usage.completion) == (prompt, completion)
    charged_nano = pair.desk.total_usage_nano()
    assert charged_nano == prompt * CHEAP_NANO[0] + completion * CHEAP_NANO[1] == said.cost_nano


@pytest.mark.parametrize("speaker", SPEAKERS)
def test_a_call_that_was_broken_off_is_made_anew_and_told_once(
    speaker: str, server: GatewayServer, simulator: SimulatedUpstream
) -> None:
    pair = pair_of(server, simulator, speaker)
    begun = {"index": 0, "id": "call_lost", "type": "function"}
    begun["function"] = {"name": "look", "arguments": '{"where": "le'}
    delta = {"choices": [{"index": 0, "delta": {"tool_calls": [begun]}, "finish_reason": None}]}
    script(pair, "a", {"events": [{"text": "Let me see. "}, {"json": delta}, CUT]})
    again = {"name": "look", "arguments": {"where": "right"}}
    script(pair, "b", {"text": "", "tool_calls": [again]})

    streamed = ask(pair, tools=[TOOL])

    said = pair.speaker.read_events(streamed)
    assert (said.text, said.finish) == ("Let me see. ", "tool_calls")
    [call] = said.calls
    assert (call.name, call.arguments.replace(" ", "")) == ("look", '{"where":"right"}')
    assert isinstance(call, Call)
    assert b"call_lost" not in streamed.response.content
    assert len(seams(streamed)) == 1


def test_what_nobody_finishes_costs_nothing(
    server: GatewayServer, simulator: SimulatedUpstream
) -> None:
    pair = pair_of(server, simulator)
    for place in "ab":
        steps = [{"events": [*BEGUN, CUT]}] if place == "a" else []
        script(pair, place, *steps, *[{"status": 503}] * 3)

    streamed = ask(pair)

    said = pair.speaker.read_events(streamed)
    assert (said.text, said.finish) == (SAID, "error")
    record = record_of(pair, streamed)
    assert pair.desk.total_usage_nano() == 0
    assert record["native_tokens_completion"] == len(SAID) // 4


def test_nobody_goes_on_with_an_answer_that_is_too_large(
    server: GatewayServer, simulator: SimulatedUpstream
) -> None:
    pair = pair_of(server, simulator)
    script(pair, "a", {"events": [{"text": "x" * (LARGEST_BYTES // 8)}] * 10})
    streamed = ask(pair)
    said = pair.speaker.read_events(streamed)
    assert said.text
    assert said.failure is not None


def test_nobody_goes_on_with_an_answer_that_is_kept_back(
    server: GatewayServer, simulator: SimulatedUpstream
) -> None:
    pair = pair_of(server, simulator)
    set_guardrail(pair.desk, output_filters=[{"pattern": "One", "action": "block"}])
    script(pair, "a", {"events": [*BEGUN, CUT]})

    streamed = ask(pair)

    assert pair.speaker.read_events(streamed).text == ""
    assert sent_to(pair, "b") == []


def test_who_leaves_in_the_second_part_pays_for_what_both_have_made(
    server: GatewayServer, simulator: SimulatedUpstream
) -> None:
    pair = pair_of(server, simulator)
    script(pair, "a", {"events": [*BEGUN, CUT]})
    script(pair, "b", {"events": [{"text": "ee four "}, {"gate": "never"}]})
    body = pair.body(model="openai/pair", provider=wish("openai"), stream=True)
    with closing(open_stream(pair.desk, pair.speaker.path, **body)) as wire:
        head, _ = wire.head(), wire.read_until(b"ee four")
        generation_id = head[1]["x-generation-id"]
    record = pair.desk.wait_record(generation_id)
    simulator.open_gate("never")

    assert record["cancelled"] is True
    prompt, completion = record["native_tokens_prompt"], record["native_tokens_completion"]
    assert completion == len(SAID) // 4 + len("ee four ") // 4
    assert nano(record["total_cost"]) == prompt * CHEAP_NANO[0] + completion * CHEAP_NANO[1]


def test_of_many_streams_whose_upstreams_die_at_random_nearly_all_complete(
    server: GatewayServer, simulator: SimulatedUpstream
) -> None:
    pair = pair_of(server, simulator)
    drawn = random.Random(20)
    words = [f"w{number} " for number in range(12)]
    for place in "ab":
        steps: list[dict[str, Any]] = []
        for _ in range(STREAMS * 2):
            if drawn.random() < KILLED:
                said = words[: drawn.randrange(1, len(words))]
                how = {"cut": drawn.choice(["reset", "close"])}
                steps.append({"events": [*[{"text": word} for word in said], how]})
            else:
                steps.append({"text": "".join(words)})
        script(pair, place, *steps)

    def run(number: int) -> tuple[bool, int]:
        speaker = list(SPEAKERS)[number % len(SPEAKERS)]
        streamed = ask(Pair(SPEAKERS[speaker], "openai", pair.desk))
        said = SPEAKERS[speaker].read_events(streamed)
        return said.failure is None and said.finish == "stop", len(seams(streamed))

    with ThreadPoolExecutor(6) as pool:
        ends = list(pool.map(run, range(STREAMS)))

    completed = sum(is_complete for is_complete, _ in ends)
    assert sum(count for _, count in ends) > STREAMS * KILLED / 2
    assert completed >= 0.95 * STREAMS, completed
