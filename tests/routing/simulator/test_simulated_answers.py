import json
from math import exp
from typing import Any

import pytest

from routing.simulator.testing import SimulatedUpstream

WEATHER = {
    "type": "function",
    "function": {
        "name": "weather",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}, "days": {"type": "integer", "minimum": 3}},
            "required": ["city", "days"],
        },
    },
}


def say(text: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": text}]


def document(answer: tuple[int, dict[str, str], bytes]) -> dict[str, Any]:
    status, _, body = answer
    assert status == 200
    loaded: dict[str, Any] = json.loads(body)
    return loaded


def chunks(answer: tuple[int, dict[str, str], bytes]) -> list[dict[str, Any]]:
    status, headers, body = answer
    assert status == 200
    assert headers["content-type"] == "text/event-stream; charset=utf-8"
    *events, done, rest = body.decode().split("\n\n")
    assert (done, rest) == ("data: [DONE]", "")
    return [json.loads(event.removeprefix("data: ")) for event in events]


def deltas(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [event["choices"][0]["delta"] for event in events if event["choices"]]


def test_an_answer_says_that_it_is_simulated_and_counts_its_tokens(chat):
    answer = document(chat(messages=say("Hello there")))

    choice = answer["choices"][0]
    assert choice["message"]["content"] == "Simulated answer to: Hello there"
    assert choice["finish_reason"] == "stop"
    assert answer["usage"]["prompt_tokens"] == 3
    assert answer["usage"]["completion_tokens"] == 5
    assert answer["usage"]["total_tokens"] == 8
    assert answer["object"] == "chat.completion"
    assert answer["system_fingerprint"] == "fp_simulated"


def test_a_stream_has_role_pieces_finish_usage_and_done_in_this_order(chat):
    events = chunks(chat(stream=True, stream_options={"include_usage": True}))

    said = deltas(events)
    assert said[0] == {"role": "assistant", "content": "", "refusal": None}
    assert [delta["content"] for delta in said[1:-1]] == [
        "Simulated", " answer", " to:", " Hello", " there",
    ]  # fmt: skip
    assert events[-2]["choices"][0]["finish_reason"] == "stop"
    assert events[-1]["choices"] == []
    assert events[-1]["usage"]["completion_tokens"] == 5
    assert all(event["usage"] is None for event in events[:-1])
    assert len({(event["id"], event["model"], event["created"]) for event in events}) == 1


def test_a_stream_reports_usage_only_when_asked(chat):
    assert all("usage" not in event for event in chunks(chat(stream=True)))


@pytest.mark.parametrize("wanted", [1, 12, 500])
def test_it_says_exactly_the_wanted_number_of_words(chat, wanted):
    answer = document(chat(messages=say(f"Please say {wanted} words")))

    assert len(answer["choices"][0]["message"]["content"].split(" ")) == wanted
    assert answer["usage"]["completion_tokens"] == wanted


@pytest.mark.parametrize(
    "limit", [{"max_tokens": 4}, {"max_completion_tokens": 4, "max_tokens": 9}]
)
def test_the_token_limit_ends_the_answer_with_length(chat, limit):
    answer = document(chat(messages=say("say 10 words"), **limit))

    assert answer["choices"][0]["finish_reason"] == "length"
    assert answer["usage"]["completion_tokens"] == 4


def test_a_stop_sequence_ends_the_answer_before_it(chat):
    answer = document(chat(messages=say("one two three"), stop=["three", " two"]))

    assert answer["choices"][0]["message"]["content"] == "Simulated answer to: one"
    assert answer["choices"][0]["finish_reason"] == "stop"


@pytest.mark.parametrize(
    "ask",
    [
        {"tool_choice": "required"},
        {"tool_choice": {"type": "function", "function": {"name": "weather"}}},
        {"messages": [{"role": "user", "content": [{"type": "text", "text": "now call weather"}]}]},
    ],
)
def test_a_tool_is_called_with_arguments_from_its_schema(chat, ask):
    choice = document(chat(tools=[WEATHER], **ask))["choices"][0]

    assert choice["finish_reason"] == "tool_calls"
    assert choice["message"]["content"] is None
    [call] = choice["message"]["tool_calls"]
    assert call["function"]["name"] == "weather"
    assert json.loads(call["function"]["arguments"]) == {"city": "simulated", "days": 3}


def test_tools_are_left_alone_when_nothing_asks_for_them(chat):
    for choice in ("auto", "none"):
        message = document(chat(tools=[WEATHER], tool_choice=choice))["choices"][0]["message"]
        assert "tool_calls" not in message


def test_a_streamed_tool_call_names_itself_once_and_comes_in_fragments(chat):
    events = chunks(chat(tools=[WEATHER], tool_choice="required", stream=True))

    calls = [delta["tool_calls"][0] for delta in deltas(events) if "tool_calls" in delta]
    assert calls[0]["function"] == {"name": "weather", "arguments": ""}
    assert [set(call) for call in calls[1:]] == [{"index", "function"}] * (len(calls) - 1)
    assert len(calls) > 2
    joined = "".join(call["function"]["arguments"] for call in calls)
    assert json.loads(joined) == {"city": "simulated", "days": 3}


def test_a_json_schema_is_answered_with_a_fitting_document(chat):
    schema = {
        "type": "object",
        "properties": {
            "color": {"enum": ["red", "blue"]},
            "score": {"type": "number", "minimum": 0.5},
            "tags": {"type": "array", "items": {"$ref": "#/$defs/tag"}, "minItems": 2},
            "next": {"anyOf": [{"type": "null"}, {"$ref": "#"}]},
        },
        "required": ["color", "score", "tags", "next"],
        "$defs": {"tag": {"type": "string", "maxLength": 3}},
    }
    wanted = {"type": "json_schema", "json_schema": {"name": "thing", "schema": schema}}

    content = document(chat(response_format=wanted))["choices"][0]["message"]["content"]

    assert json.loads(content) == {
        "color": "red", "score": 0.5, "tags": ["sim", "sim"], "next": None,
    }  # fmt: skip


def test_a_schema_that_refers_to_itself_still_ends(chat):
    schema = {"type": "object", "properties": {"next": {"$ref": "#"}}, "required": ["next"]}
    wanted = {"type": "json_schema", "json_schema": {"name": "loop", "schema": schema}}

    assert json.loads(document(chat(response_format=wanted))["choices"][0]["message"]["content"])


def test_a_json_object_is_answered_with_json(chat):
    answer = document(chat(response_format={"type": "json_object"}))

    assert "Simulated" in json.loads(answer["choices"][0]["message"]["content"])["answer"]


def test_logprobs_are_the_same_each_time_and_no_distribution_exceeds_one(chat):
    first, second = (
        document(chat(logprobs=True, top_logprobs=20))["choices"][0]["logprobs"]["content"]
        for _ in range(2)
    )

    assert first == second
    assert [token["token"] for token in first][:2] == ["Simulated", " answer"]
    assert all(len(token["top_logprobs"]) == 20 for token in first)
    for token in first:
        assert sum(exp(alternative["logprob"]) for alternative in token["top_logprobs"]) <= 1


def test_labels_of_the_prompt_are_among_the_alternatives(chat):
    answer = document(
        chat(messages=say("Which?\nX1) Paris\nX2) Rome"), logprobs=True, top_logprobs=3)
    )

    top = answer["choices"][0]["logprobs"]["content"][0]["top_logprobs"]
    assert [alternative["token"] for alternative in top] == ["Simulated", "X1", "X2"]


def test_streamed_logprobs_come_with_their_token(chat):
    events = chunks(chat(stream=True, logprobs=True, top_logprobs=1))

    for event in events[1:-1]:
        [scored] = event["choices"][0]["logprobs"]["content"]
        assert scored["token"] == event["choices"][0]["delta"]["content"]


def test_a_reasoning_model_thinks_first_and_reports_it(chat):
    events = chunks(chat("sim/reasoner", stream=True, stream_options={"include_usage": True}))

    said = deltas(events)[1:-1]
    thoughts = [n for n, delta in enumerate(said) if "reasoning_content" in delta]
    assert thoughts == list(range(len(thoughts)))
    usage = events[-1]["usage"]
    assert usage["completion_tokens_details"]["reasoning_tokens"] == len(thoughts) > 0
    assert usage["completion_tokens"] == len(said)


def test_a_reasoning_model_told_not_to_does_not_think(chat):
    answer = document(chat("sim/reasoner", reasoning_effort="none"))

    assert "reasoning_content" not in answer["choices"][0]["message"]


def test_the_service_tier_is_echoed(chat):
    assert document(chat(service_tier="flex"))["service_tier"] == "flex"
    assert "service_tier" not in document(chat())


def test_text_that_has_no_utf8_form_is_answered_all_the_same(upstream, wire):
    body = b'{"model":"sim/small","messages":[{"role":"user","content":"\\ud800!"}]}'
    wire.send(
        b"POST /v1/chat/completions HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % len(body) + body
    )

    _, headers = wire.head()

    assert "?!" in wire.body(headers).decode()


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b"{", b'{"messages": "x"}'])
def test_a_body_that_is_no_chat_request_is_refused(wire, body):
    wire.send(
        b"POST /v1/chat/completions HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % len(body) + body
    )

    status, headers = wire.head()

    assert status == 400
    assert json.loads(wire.body(headers))["error"]["type"] == "invalid_request_error"


def test_a_chunked_request_body_is_read(upstream, wire):
    body = b'{"model":"m","messages":[]}'
    wire.send(
        b"POST /v1/chat/completions HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"
        b"5\r\n" + body[:5] + b"\r\n%x\r\n" % (len(body) - 5) + body[5:] + b"\r\n0\r\n\r\n"
    )

    assert wire.head()[0] == 200


def test_requests_sent_together_are_answered_one_after_another(upstream, wire):
    wire.send(upstream.chat_bytes("a", persona="swift") + upstream.chat_bytes("b"))

    models = []
    for _ in range(2):
        _, headers = wire.head()
        models.append(json.loads(wire.body(headers))["model"])
    assert models == ["a", "b"]


def test_models_are_listed_for_every_persona(wire):
    for path in (b"/v1/models", b"/swift/v1/models"):
        wire.send(b"GET " + path + b" HTTP/1.1\r\n\r\n")
        _, headers = wire.head()
        listed = json.loads(wire.body(headers))
        assert "sim/small" in [model["id"] for model in listed["data"]]


def test_an_unknown_path_is_a_json_404(wire):
    wire.send(b"POST /v1/embeddings HTTP/1.1\r\nContent-Length: 0\r\n\r\n")

    status, headers = wire.head()

    assert status == 404
    assert "error" in json.loads(wire.body(headers))


def test_the_same_seed_gives_the_same_answers():
    answers = []
    for _ in range(2):
        with SimulatedUpstream("--seed", "42") as upstream, upstream.wire() as wire:
            upstream.control("PUT", "/_persona/moody", {"error_rate": 0.5})
            seen = []
            for _ in range(30):
                wire.send(upstream.chat_bytes("sim/small", persona="moody"))
                status, headers = wire.head()
                seen.append((status, wire.body(headers)))
            answers.append(seen)

    assert answers[0] == answers[1]
    assert {status for status, _ in answers[0]} == {200, 503}


def test_a_persona_takes_the_time_it_is_described_with(upstream, wire):
    upstream.control("PUT", "/_persona/slow", {"first_token_s": 0.1, "tokens_per_s": 50})
    wire.send(upstream.chat_bytes("m", persona="slow", stream=True))
    wire.until(b"0\r\n\r\n")

    [entry] = upstream.requests()

    # Five tokens: four gaps of 20 ms between them, after the first.
    assert entry["ended_at"] - entry["received_at"] >= 0.1 + 4 * 0.02 - 0.005
