"""Advisors, subagents, fusions and pictures: other models' answers inside of one, on its bill."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.conformance.asking import PIXEL, RESPONSES, ok, post
from tests.conformance.desk import Desk, exact, nano, open_stream
from tests.conformance.own_credentials import bring
from tests.conformance.test_three_by_three import COMPLETION_NANO, PROMPT_NANO

MODEL, OTHER, THIRD = "acme/over-openai", "acme/over-anthropic", "acme/over-responses"
STREAMED = pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])


@pytest.fixture
def desk(own_wide_desk: Desk) -> Desk:
    own_wide_desk.model = MODEL
    return own_wide_desk


def token_counts(prompt: int, completion: int) -> dict[str, int]:
    return {"prompt_tokens": prompt, "completion_tokens": completion}


def calls(name: str, usage: dict[str, int], **arguments: Any) -> dict[str, Any]:
    return {"tool_calls": [{"name": name, "arguments": arguments}], "usage": usage}


def tool(kind: str, **parameters: Any) -> dict[str, Any]:
    return {"type": f"router:{kind}", "parameters": parameters}


ADVISED = token_counts(100, 10), token_counts(30, 3), token_counts(200, 20)


def script_advice(desk: Desk, name: str = "advisor") -> None:
    """The model asks another one why, is told and answers, each with its usage of `ADVISED`."""
    asked, advised, ended = ADVISED
    question = calls(name, asked, question="Why?")
    desk.upstream.script("chat-a", question, {"text": "So it is.", "usage": ended})
    desk.upstream.script("messages-a", {"text": "Because.", "usage": advised})


def ask(desk: Desk, *tools: dict[str, Any], stream: bool = False, **options: Any) -> int:
    """What a loop cost by its own word, which the books repeat."""
    if stream:
        streamed = desk.stream(tools=list(tools), **options)
        cost = nano(streamed.usage["cost"])
        assert desk.charged_nano(streamed.response.headers["X-Generation-Id"]) == cost
        assert streamed.text == "So it is."
        return cost
    answer = desk.ok(tools=list(tools), **options)
    assert answer["choices"][0]["message"]["content"] == "So it is."
    return desk.paid_nano(answer)


def price(*usages: dict[str, int]) -> int:
    prompt = sum(usage["prompt_tokens"] for usage in usages)
    completion = sum(usage["completion_tokens"] for usage in usages)
    return prompt * PROMPT_NANO + completion * COMPLETION_NANO


def read_tool_result(desk: Desk) -> Any:
    """What the asking model was told of its call."""
    messages = desk.list_sent_bodies("chat-a")[-1]["messages"]
    (content,) = [message["content"] for message in messages if message["role"] == "tool"]
    return json.loads(content)


@STREAMED
def test_an_advisor(desk: Desk, stream: bool) -> None:
    for forwarded in (False, True):
        desk.upstream.clear()
        script_advice(desk, "advisor_wise")
        advisor = tool("advisor", name="wise", model=OTHER, forward_transcript=forwarded)

        assert ask(desk, advisor, stream=stream) == price(*ADVISED)

        assert read_tool_result(desk) == {"advice": "Because."}
        (asked,) = desk.list_sent_bodies("messages-a")
        said = json.dumps(asked)
        assert "Why?" in said
        assert ("Hello there" in said) == forwarded
        assert "tools" not in asked


def test_an_advisor_beside_a_model_on_the_team_s_own_credential(desk: Desk) -> None:
    bring(desk, "chat-a", "sk-mine-0123456789abcdef")
    script_advice(desk)

    answer = desk.ok(tools=[tool("advisor", model=OTHER)])

    # What the gateway's credential was used for is no fee, of which there is none here.
    paid_nano = price(ADVISED[1])
    assert desk.paid_nano(answer) == paid_nano == desk.total_usage_nano()
    entries = desk.server.manage("ledger", "--generation", answer["id"])["entries"]
    assert [(each["kind"], each["amount_nano"]) for each in entries] == [("usage", paid_nano)]


@STREAMED
def test_a_subagent_works_with_tools_of_its_own(desk: Desk, stream: bool) -> None:
    turns = token_counts(100, 10), token_counts(30, 3), token_counts(40, 4), token_counts(200, 20)
    task = calls("subagent", turns[0], task="Tell the time")
    desk.upstream.script("chat-a", task, {"text": "So it is.", "usage": turns[3]})
    late = {"text": "It is late.", "usage": turns[2]}
    desk.upstream.script("responses-a", calls("datetime", turns[1]), late)
    agent = tool("subagent", model=THIRD, tools=[tool("datetime")], instructions="Be brief.")

    cost = ask(desk, agent, stream=stream)

    assert cost == price(*turns)
    assert read_tool_result(desk) == {"output": "It is late."}
    first, _ = desk.list_sent_bodies("responses-a")
    assert [each["name"] for each in first["tools"]] == ["datetime"]
    assert first["instructions"] == "Be brief."


@STREAMED
def test_a_fusion_asks_its_panel_and_compares(desk: Desk, stream: bool) -> None:
    turns = (
        token_counts(100, 10),
        token_counts(30, 3),
        token_counts(40, 4),
        token_counts(50, 5),
        token_counts(200, 20),
    )
    desk.upstream.script(
        "chat-a",
        calls("fusion", turns[0], question="Why?"),
        {"text": "They agree.", "usage": turns[3]},
        {"text": "So it is.", "usage": turns[4]},
    )
    desk.upstream.script("messages-a", {"text": "Because.", "usage": turns[1]})
    desk.upstream.script("responses-a", {"text": "It is so.", "usage": turns[2]})

    cost = ask(desk, tool("fusion", analysis_models=[OTHER, THIRD]), stream=stream)

    assert cost == price(*turns)
    answers = [{"model": OTHER, "answer": "Because."}, {"model": THIRD, "answer": "It is so."}]
    assert read_tool_result(desk) == {"answers": answers, "analysis": "They agree."}


def test_a_panel_that_fails_in_part_is_told_so_and_only_what_came_is_paid(desk: Desk) -> None:
    script_advice(desk, "fusion")
    desk.upstream.script("responses-a", {"fault": "500"})

    cost = ask(desk, tool("fusion", analysis_models=[THIRD, OTHER]))

    assert cost == price(*ADVISED)
    told = read_tool_result(desk)
    assert "error" in told["answers"][0]
    assert told["answers"][1] == {"model": OTHER, "answer": "Because."}
    assert told["analysis"] is None


@pytest.mark.parametrize("model", ["acme/nobody", "~acme/none-latest"])
def test_a_model_that_there_is_not_is_told_to_the_model_that_asked(desk: Desk, model: str) -> None:
    script_advice(desk)

    cost = ask(desk, tool("advisor", model=model))

    assert cost == price(ADVISED[0], ADVISED[2])
    assert "error" in read_tool_result(desk)


@STREAMED
def test_a_picture_is_shown_and_not_sent_back(desk: Desk, stream: bool) -> None:
    picture = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}"}}
    turns = token_counts(100, 10), token_counts(7, 70), token_counts(200, 20)
    painting = calls("image_generation", turns[0], prompt="A cat")
    desk.upstream.script("chat-a", painting, {"text": "So it is.", "usage": turns[2]})
    message = {"role": "assistant", "content": None, "images": [picture]}
    body = {
        "id": "x",
        "object": "chat.completion",
        "created": 1,
        "model": "painter",
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
        "usage": {**turns[1], "total_tokens": 77},
    }
    desk.upstream.script("chat-b", {"status": 200, "json": body})

    response = desk.post(
        tools=[tool("image_generation", model="acme/painter", size="big")], stream=stream
    )

    assert response.status_code == 200, response.text
    assert response.text.count(PIXEL) == 1
    assert PIXEL not in json.dumps(desk.list_sent_bodies("chat-a"))
    (asked,) = desk.list_sent_bodies("chat-b")
    assert asked["model"] == "painter"
    assert desk.charged_nano(response.headers["X-Generation-Id"]) == price(*turns)
    if not stream:
        assert exact(response)["choices"][0]["message"]["images"] == [picture]


@contextmanager
def caller(desk: Desk, *tools: dict[str, Any]) -> Iterator[str]:
    """The id of an answer whose caller leaves at the end of the block."""
    wire = open_stream(desk, tools=tools)
    _, headers = wire.head()
    yield headers["x-generation-id"]
    wire.close()


def prompts_nano(desk: Desk, generation_id: str, *turns: dict[str, int]) -> int:
    """What was charged beside these turns, for prompts whose answers nobody waited for."""
    assert desk.wait_record(generation_id)["cancelled"] is True
    more_nano = desk.charged_nano(generation_id) - price(*turns)
    assert more_nano % PROMPT_NANO == 0
    return more_nano


def test_who_leaves_while_an_agent_works_pays_what_was_made_and_asked(desk: Desk) -> None:
    turns = token_counts(100, 10), token_counts(30, 3)
    desk.upstream.script("chat-a", calls("subagent", turns[0], task="Tell the time"))
    desk.upstream.script("responses-a", calls("datetime", turns[1]), {"gate": "never"})
    agent = tool("subagent", model=THIRD, tools=[tool("datetime")])

    with caller(desk, agent) as generation_id:
        desk.upstream.wait_gate("never")

    # The prompt of the turn in progress, whose provider stops its bill.
    assert 0 < prompts_nano(desk, generation_id, *turns) < price(token_counts(1_000, 0))
    desk.upstream.open_gate("never")


def test_who_leaves_a_panel_pays_all_that_it_was_asked(desk: Desk) -> None:
    first = token_counts(100, 10)
    desk.upstream.script("chat-a", calls("fusion", first, question="Why?"))
    desk.upstream.script("messages-a", {"gate": "one"})
    desk.upstream.script("responses-a", {"gate": "other"})

    with caller(desk, tool("fusion", analysis_models=[OTHER, THIRD])) as generation_id:
        desk.upstream.wait_gate("one")
        desk.upstream.wait_gate("other")

    # "Why?" is a token to each.
    assert prompts_nano(desk, generation_id, first) == 2 * PROMPT_NANO
    desk.upstream.open_gate("one")
    desk.upstream.open_gate("other")


def test_many_agents_at_once_share_one_hold(desk: Desk) -> None:
    """Eight answers side by side, each of which raises the hold."""
    turns = [token_counts(100, 10), *[token_counts(30, 3)] * 8, token_counts(200, 20)]
    call = {"name": "subagent", "arguments": {"task": "Go"}}
    desk.upstream.script(
        "chat-a",
        {"tool_calls": [call] * 8, "usage": turns[0]},
        {"text": "So it is.", "usage": turns[-1]},
    )
    desk.upstream.script(
        "responses-a", {"text": "Done.", "usage": token_counts(30, 3)}, repeat=True
    )

    assert ask(desk, tool("subagent", model=THIRD)) == price(*turns)


def test_the_metadata_tell_what_tools_did_and_what_they_cost(desk: Desk) -> None:
    script_advice(desk)

    answer = desk.ok(tools=[tool("advisor", model=OTHER)], headers={"X-Router-Metadata": "enabled"})

    (stage,) = answer["router_metadata"]["pipeline"]
    assert (stage["type"], stage["summary"]) == ("server_tools", "1 of 1 calls in 2 turns")
    assert stage["data"]["tools"] == {"router:advisor": 1}
    assert nano(stage["cost_usd"]) == price(ADVISED[1])
    details = answer["usage"]["cost_details"]
    parts = ("upstream_inference_prompt_cost", "upstream_inference_completions_cost")
    assert sum(nano(details[part]) for part in parts) == price(ADVISED[0], ADVISED[2])


# --- Subagents that call functions of the caller's: they wait for the results, and go on ---------

WHERE = {"role": "user", "content": "Where is order 1?"}
LOOKUP = {
    "type": "function",
    "name": "lookup",
    "parameters": {"type": "object", "properties": {"id": {"type": "string"}}},
}
AGENT = {
    "type": "router:subagent",
    "parameters": {
        "model": OTHER,
        "inherit_functions": True,
        "tools": [{"type": "router:datetime"}],
    },
}


def read_response(desk: Desk, *, stream: bool, items: list[Any]) -> dict[str, Any]:
    """The response object at the end."""
    asked: dict[str, Any] = {"input": items, "tools": [LOOKUP, AGENT], "stream": stream}
    if not stream:
        answer: dict[str, Any] = ok(desk, RESPONSES, **asked)
        return answer
    told = post(desk, RESPONSES, **asked).text
    events = [json.loads(line[6:]) for line in told.splitlines() if line.startswith("data: {")]
    (last,) = [each["response"] for each in events if each["type"] == "response.completed"]
    done = [each["item"] for each in events if each["type"] == "response.output_item.done"]
    assert sorted(map(json.dumps, done)) == sorted(map(json.dumps, last["output"]))
    return dict(last)


def call_all(*calls: tuple[str, dict[str, Any]], usage: dict[str, int]) -> dict[str, Any]:
    made = [{"name": name, "arguments": arguments} for name, arguments in calls]
    return {"tool_calls": made, "usage": usage}


@STREAMED
def test_an_agent_waits_for_a_function_and_goes_on(desk: Desk, stream: bool) -> None:
    task = ("subagent", {"task": "Find order 1"})
    turns = [
        token_counts(100, 10),
        token_counts(30, 3),
        token_counts(200, 20),
        token_counts(40, 4),
        token_counts(300, 30),
    ]
    desk.upstream.script(
        "chat-a",
        call_all(task, usage=turns[0]),
        call_all(("subagent", {"task": "Go on"}), usage=turns[2]),
        {"text": "It has shipped.", "usage": turns[4]},
    )
    desk.upstream.script(
        "messages-a",
        call_all(
            ("datetime", {}), ("lookup", {"id": "1"}), ("lookup", {"id": "2"}), usage=turns[1]
        ),
        {"text": "Shipped.", "usage": turns[3]},
    )

    first = read_response(desk, stream=stream, items=[WHERE])

    waiting, *called = first["output"]
    assert (waiting["type"], waiting["status"]) == ("router:subagent", "in_progress")
    assert waiting["task"] == "Find order 1"
    assert [each["arguments"] for each in called] == ['{"id":"1"}', '{"id":"2"}']
    assert {each["subagent_id"] for each in called} == {waiting["call_id"]}
    assert [len(each.get("subagent_items", ())) for each in called] == [1, 0]
    assert desk.total_usage_nano() == price(*turns[:2])

    outputs = [
        {"type": "function_call_output", "call_id": each["call_id"], "output": "shipped"}
        for each in called
    ]
    history = [WHERE, *first["output"], *outputs]
    second = read_response(desk, stream=stream, items=history)

    done, message = second["output"]
    assert (done["status"], done["output"]) == ("completed", "Shipped.")
    assert message["content"][0]["text"] == "It has shipped."
    assert desk.total_usage_nano() == price(*turns)
    went_on = json.dumps(desk.list_sent_bodies("messages-a")[1]["messages"])
    assert went_on.count("shipped") == 2
    assert all(each["call_id"] in went_on for each in called)
    assert "datetime" in went_on
    told = desk.list_sent_bodies("chat-a")[1]
    assert told["tool_choice"] == {"type": "function", "function": {"name": "subagent"}}

    desk.upstream.script("chat-a", {"text": "Good."})
    third = read_response(desk, stream=stream, items=[*history, *second["output"], WHERE])
    (last,) = third["output"]
    assert last["content"][0]["text"] == "Good."
    assert "lookup" not in json.dumps(desk.list_sent_bodies("chat-a")[-1]["messages"])
