"""The official `openai` package, unmodified, against the running server."""

import asyncio
import json
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any

import openai
import pytest
from openai import OpenAI
from openai.types.chat import ChatCompletionChunk

from tests.conformance.desk import HELLO, Desk, nano
from tests.support.gateways import SeededAccount

MODEL = "acme/solo"
WEATHER: Any = {
    "type": "function",
    "function": {
        "name": "weather",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
            "required": ["city", "days"],
        },
    },
}
ASK_WEATHER: Any = [{"role": "user", "content": "call weather for me"}]
MESSAGES: Any = HELLO


def saying(text: str) -> Any:
    return [{"role": "user", "content": text}]


@pytest.fixture
def client(desk: Desk) -> Iterator[OpenAI]:
    """A client that never retries by itself."""
    key, url = desk.account.api_key, desk.server.base_url
    with OpenAI(api_key=key, base_url=url, max_retries=0, timeout=20) as client:
        yield client


def cost_nano(usage: Any) -> int:
    """The cost in a usage object; `openai` keeps fields it does not know."""
    return nano(Decimal(str(usage.cost)))


def test_a_plain_answer(client: OpenAI, desk: Desk) -> None:
    answer = client.chat.completions.create(model=MODEL, messages=saying("say 4 words"))

    (choice,) = answer.choices
    assert choice.message.role == "assistant"
    assert len((choice.message.content or "").split()) == 4
    assert choice.finish_reason == "stop"
    assert answer.model == MODEL
    assert answer.usage
    assert answer.usage.completion_tokens == 4
    assert cost_nano(answer.usage) == desk.charged_nano(answer.id) > 0


def test_a_streamed_answer(client: OpenAI, desk: Desk) -> None:
    with client.chat.completions.create(
        model=MODEL, messages=saying("say 6 words"), stream=True
    ) as stream:
        chunks = list(stream)

    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks)
    assert len(text.split()) == 6
    assert len({chunk.id for chunk in chunks}) == 1
    last = chunks[-1]
    assert chunks[-2].choices[0].finish_reason == "stop"
    assert last.usage
    assert cost_nano(last.usage) == desk.charged_nano(last.id) > 0


def test_the_streaming_helper_puts_the_answer_together(client: OpenAI) -> None:
    with client.chat.completions.stream(model=MODEL, messages=saying("say 3 words")) as stream:
        completion = stream.get_final_completion()

    assert len((completion.choices[0].message.content or "").split()) == 3
    assert completion.choices[0].finish_reason == "stop"
    assert completion.usage


def test_a_tool_call_and_its_answer(client: OpenAI, desk: Desk) -> None:
    first = client.chat.completions.create(model=MODEL, messages=ASK_WEATHER, tools=[WEATHER])
    message = first.choices[0].message
    assert first.choices[0].finish_reason == "tool_calls"
    assert message.tool_calls
    (call,) = message.tool_calls
    assert call.type == "function"
    assert call.function.name == "weather"
    assert json.loads(call.function.arguments).keys() == {"city", "days"}

    result: Any = {"role": "tool", "tool_call_id": call.id, "content": "sunny"}
    history = [*ASK_WEATHER, message.to_dict(), result]
    second = client.chat.completions.create(model=MODEL, messages=history, tools=[WEATHER])

    assert second.choices[0].finish_reason == "stop"
    _, sent = desk.sent()
    assert sent["messages"][1]["tool_calls"][0]["id"] == call.id
    assert sent["messages"][2] == result


def test_a_streamed_tool_call_in_fragments(client: OpenAI) -> None:
    with client.chat.completions.create(
        model=MODEL, messages=ASK_WEATHER, tools=[WEATHER], stream=True
    ) as stream:
        chunks = list(stream)

    fragments = [call for chunk in chunks for call in chunk.choices[0].delta.tool_calls or []]
    first, *later = fragments
    assert first.id
    assert first.type == "function"
    assert first.function
    assert first.function.name == "weather"
    assert len(later) > 1
    assert {(each.index, each.id) for each in later} == {(0, None)}
    arguments = "".join(call.function.arguments or "" for call in fragments if call.function)
    assert json.loads(arguments).keys() == {"city", "days"}
    assert chunks[-2].choices[0].finish_reason == "tool_calls"


def test_a_function_call_as_before_there_were_tools(client: OpenAI, desk: Desk) -> None:
    functions: Any = [WEATHER["function"]]
    first = client.chat.completions.create(model=MODEL, messages=ASK_WEATHER, functions=functions)
    (choice,) = first.choices
    called = choice.message.function_call

    assert choice.finish_reason == "function_call"
    assert called
    assert called.name == "weather"
    assert json.loads(called.arguments).keys() == {"city", "days"}
    assert choice.message.tool_calls is None

    result: Any = {"role": "function", "name": "weather", "content": "sunny"}
    history = [*ASK_WEATHER, choice.message.to_dict(), result]
    second = client.chat.completions.create(model=MODEL, messages=history, functions=functions)

    assert second.choices[0].finish_reason == "stop"
    _, sent = desk.sent()
    assert sent["tools"] == [WEATHER]
    assert [message["role"] for message in sent["messages"]] == ["user", "assistant", "tool"]


def test_a_streamed_function_call_in_fragments(client: OpenAI, desk: Desk) -> None:
    calls = [{"name": "weather", "arguments": {"days": day}} for day in (1, 2)]
    desk.upstream.script("gamma", {"tool_calls": calls})
    functions: Any = [WEATHER["function"]]
    with client.chat.completions.create(
        model=MODEL, messages=ASK_WEATHER, functions=functions, stream=True
    ) as stream:
        chunks = list(stream)

    deltas = [chunk.choices[0].delta for chunk in chunks]
    told = [delta.function_call for delta in deltas if delta.function_call]
    assert [each.name for each in told if each.name] == ["weather"]
    assert json.loads("".join(each.arguments or "" for each in told)) == {"days": 1}
    assert not any(delta.tool_calls for delta in deltas)
    assert chunks[-2].choices[0].finish_reason == "function_call"


def test_logprobs_whole_and_streamed(client: OpenAI, desk: Desk) -> None:
    asked: Any = {"model": MODEL, "messages": saying("say 3 words")}
    whole = client.chat.completions.create(**asked, logprobs=True, top_logprobs=2)
    with client.chat.completions.create(
        **asked, logprobs=True, top_logprobs=2, stream=True
    ) as stream:
        chunks = list(stream)

    assert whole.choices[0].logprobs
    told = whole.choices[0].logprobs.content
    assert told
    assert [len(token.top_logprobs) for token in told] == [2, 2, 2]
    assert all(token.logprob <= 0 and token.bytes for token in told)
    assert [token.token for token in told] == [token.token for token in _streamed_tokens(chunks)]


def _streamed_tokens(chunks: list[ChatCompletionChunk]) -> list[Any]:
    scored = [chunk.choices[0].logprobs for chunk in chunks]
    return [token for each in scored if each for token in each.content or []]


def test_logprobs_of_responses_whole_and_streamed(client: OpenAI) -> None:
    asked: Any = {"model": MODEL, "input": "say 3 words", "store": False, "top_logprobs": 2}
    asked["include"] = ["message.output_text.logprobs"]
    whole = client.responses.create(**asked)
    with client.responses.create(**asked, stream=True) as stream:
        events = list(stream)

    told = whole.to_dict()["output"][0]["content"][0]["logprobs"]
    assert [len(token["top_logprobs"]) for token in told] == [2, 2, 2]
    assert all(token["bytes"] for token in told)
    deltas = [event for event in events if event.type == "response.output_text.delta"]
    streamed = [token.token for event in deltas for token in event.logprobs]
    assert streamed == [token["token"] for token in told]


def test_an_answer_after_a_json_schema(client: OpenAI, desk: Desk) -> None:
    schema = {
        "type": "object",
        "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
        "required": ["name", "age"],
        "additionalProperties": False,
    }
    wanted: Any = {
        "type": "json_schema",
        "json_schema": {"name": "person", "strict": True, "schema": schema},
    }

    answer = client.chat.completions.create(model=MODEL, messages=MESSAGES, response_format=wanted)

    value = json.loads(answer.choices[0].message.content or "")
    assert isinstance(value["name"], str)
    assert isinstance(value["age"], int)
    assert desk.the_one_sent()["response_format"] == wanted


def test_reasoning_arrives_as_the_clients_extra_field(client: OpenAI, desk: Desk) -> None:
    desk.upstream.script("gamma", {"reasoning": "First I think.", "text": "Then I speak."})

    answer = client.chat.completions.create(model=MODEL, messages=MESSAGES)

    assert answer.choices[0].message.content == "Then I speak."
    assert answer.choices[0].message.reasoning == "First I think."  # type: ignore[attr-defined]  # A field beyond OpenAI's own.


@pytest.mark.parametrize(
    ("fault", "status", "error"),
    [
        ("400", 400, openai.BadRequestError),
        ("404", 404, openai.NotFoundError),
        ("403-policy", 403, openai.PermissionDeniedError),
        ("422", 422, openai.UnprocessableEntityError),
        ("429", 429, openai.RateLimitError),
        ("500", 502, openai.InternalServerError),
        ("503", 503, openai.InternalServerError),
        ("529", 529, openai.InternalServerError),
        ("504", 524, openai.InternalServerError),
        ("401", 502, openai.InternalServerError),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
def test_a_providers_refusal_becomes_the_right_class(
    client: OpenAI,
    desk: Desk,
    fault: str,
    status: int,
    error: type[openai.APIStatusError],
    stream: bool,
) -> None:
    desk.upstream.script("gamma", {"fault": fault})

    with pytest.raises(error) as raised:
        client.chat.completions.create(model=MODEL, messages=MESSAGES, stream=stream)

    told = raised.value
    assert told.status_code == status
    assert told.body["code"] == status  # type: ignore[index]  # The body is the `error` object.
    assert told.body["metadata"]["provider_name"] == "Gamma"  # type: ignore[index]  # Likewise.
    assert desk.charged_nano(told.response.headers["X-Generation-Id"]) == 0


def test_the_gateways_own_refusals_become_the_right_class(
    client: OpenAI, desk: Desk, account: Callable[..., SeededAccount]
) -> None:
    ask = client.chat.completions.create
    with pytest.raises(openai.BadRequestError, match="temperature"):
        ask(model=MODEL, messages=MESSAGES, temperature=3)
    with pytest.raises(openai.AuthenticationError):
        client.with_options(api_key="sk-wrong").chat.completions.create(
            model=MODEL, messages=MESSAGES
        )
    poor = client.with_options(api_key=account(credits_usd="0.001").api_key)
    with pytest.raises(openai.APIStatusError, match="more credits") as broke:
        poor.chat.completions.create(model=MODEL, messages=MESSAGES, max_tokens=16_000)
    with pytest.raises(openai.NotFoundError):
        client.models.retrieve("acme/none")

    assert broke.value.status_code == 402
    assert desk.upstream.requests() == []


def test_a_stream_that_breaks_raises_after_its_content(client: OpenAI, desk: Desk) -> None:
    desk.upstream.script("gamma", {"events": [{"text": "Half an ans"}, {"cut": "reset"}]})
    heard: list[str] = []

    with (
        client.chat.completions.create(model=MODEL, messages=MESSAGES, stream=True) as stream,
        pytest.raises(openai.APIError) as raised,
    ):
        heard.extend(chunk.choices[0].delta.content or "" for chunk in stream)

    assert "".join(heard) == "Half an ans"
    assert str(raised.value.code) == "502"
    assert desk.charged_nano(stream.response.headers["X-Generation-Id"]) == 0


def test_a_client_that_loses_patience(client: OpenAI, desk: Desk) -> None:
    desk.upstream.script("gamma", {"gate": "never"})

    with pytest.raises(openai.APITimeoutError):
        client.with_options(timeout=0.3).chat.completions.create(
            model=MODEL, messages=MESSAGES, stream=True
        )

    # Nobody waits any more, so the gateway lets go of the upstream; nothing was accepted yet.
    left = desk.upstream.wait(1, "disconnected", timeout_s=1)
    assert left["closed_by"] == "client"
    desk.server.wait_until(lambda: desk.server.manage("audit_ledger")["open_holds"] == 0)
    assert desk.total_usage_nano() == 0


def test_its_own_retries_are_new_generations(client: OpenAI, desk: Desk) -> None:
    hint = {"retry_after": 0}
    steps = [{"fault": "503", "options": hint}, {"fault": "429", "options": hint}]
    desk.upstream.script("gamma", *steps)

    raw = client.with_options(max_retries=2).chat.completions.with_raw_response.create(
        model=MODEL, messages=MESSAGES
    )

    assert raw.retries_taken == 2
    assert len(desk.sent()) == 3
    answer = raw.parse()
    assert desk.charged_nano(answer.id) == cost_nano(answer.usage)


def test_headers_by_the_raw_response(client: OpenAI) -> None:
    raw = client.chat.completions.with_raw_response.create(
        model=MODEL, messages=MESSAGES, extra_headers={"X-Router-Metadata": "enabled"}
    )

    answer = raw.parse()
    assert raw.headers["X-Generation-Id"] == answer.id
    assert raw.headers["Content-Type"] == "application/json"
    assert not [name for name in raw.headers if name.lower().startswith("x-ratelimit")]
    metadata: Any = answer.router_metadata  # type: ignore[attr-defined]  # A field of this gateway.
    assert (metadata["attempt"], metadata["strategy"]) == (1, "direct")
    assert metadata["attempts"] == [{"provider": "Gamma", "model": MODEL, "status": 200}]


def test_extra_body_fields_reach_the_gateway(client: OpenAI, desk: Desk) -> None:
    answer = client.chat.completions.create(
        model="acme/none-yet-listed",
        messages=MESSAGES,
        extra_body={"model": MODEL, "session_id": "from-the-client"},
    )

    assert desk.generation(answer.id)["session_id"] == "from-the-client"


def test_a_model_by_its_name(client: OpenAI) -> None:
    model = client.models.retrieve("acme/small")

    assert (model.id, model.object, model.owned_by) == ("acme/small", "model", "acme")
    assert model.created > 0


def test_the_models_list(client: OpenAI) -> None:
    listed = {model.id: model for model in client.models.list()}

    assert {"acme/small", "acme/solo", "acme/text"} <= listed.keys()
    assert listed["acme/solo"].created == 1764547200


async def _ask_async(desk: Desk, n: int) -> list[Any]:
    key, url = desk.account.api_key, desk.server.base_url
    async with openai.AsyncOpenAI(api_key=key, base_url=url, max_retries=0) as client:
        calls = [client.chat.completions.create(model=MODEL, messages=MESSAGES) for _ in range(n)]
        return list(await asyncio.gather(*calls))


def test_the_asynchronous_client_many_at_once(desk: Desk) -> None:
    answers = asyncio.run(_ask_async(desk, 20))

    assert len({answer.id for answer in answers}) == 20
    told = sum(cost_nano(answer.usage) for answer in answers)
    assert desk.total_usage_nano() == told
