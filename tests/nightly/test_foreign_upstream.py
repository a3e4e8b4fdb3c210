"""An upstream that nobody here wrote: the npm package @copilotkit/aimock."""

import json
import shutil
import subprocess
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import openai
import pytest
import requests

from tests.support.gateways import SeededAccount, StartGateway, seed_account
from tests.support.postgres import free_port
from tests.support.processes import eventually, spawn, stop
from tests.support.server import GatewayServer

PACKAGE = "@copilotkit/aimock@1.43.0"
WEATHER = {
    "type": "function",
    "function": {"name": "get_weather", "parameters": {"type": "object", "properties": {}}},
}
FIXTURES = {
    "fixtures": [
        {"match": {"userMessage": "hello"}, "response": {"content": "Hi from elsewhere, friend!"}},
        {
            "match": {"userMessage": "weather"},
            "response": {"toolCalls": [{"name": "get_weather", "arguments": '{"city":"Paris"}'}]},
        },
    ]
}

pytestmark = pytest.mark.nightly


@pytest.fixture(scope="module")
def aimock(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The base URL of a running aimock."""
    npm = shutil.which("npm")
    assert npm, "the nightly tests need Node.js with npm"
    folder = tmp_path_factory.mktemp("aimock")
    subprocess.run(
        [npm, "install", "--no-audit", "--no-fund", "--prefix", str(folder), PACKAGE],
        check=True,
        capture_output=True,
    )
    fixtures = folder / "fixtures.json"
    fixtures.write_text(json.dumps(FIXTURES), encoding="utf-8")
    port = free_port()
    binary = folder / "node_modules" / ".bin" / "llmock"
    log = folder / "aimock.log"
    server = spawn([binary, "-p", str(port), "-f", fixtures], log=log)
    try:
        eventually(lambda: _answers(port), within_s=20, what="aimock's start", log=log)
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        stop(server, grace_s=5)


def _answers(port: int) -> bool:
    try:
        return requests.get(f"http://127.0.0.1:{port}/v1/models", timeout=1).ok
    except requests.ConnectionError:
        return False


@pytest.fixture(scope="module")
def served(
    aimock: str, stores, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[GatewayServer, SeededAccount]]:
    """A gateway that got to know aimock through `add_provider`, and an account on it."""
    with StartGateway(stores, tmp_path_factory.mktemp("gateway")) as starter:
        server = starter.build(AIMOCK_API_KEY="mock")
        server.manage(
            *("add_provider", "aimock", "--base-url", aimock),
            *("--key-env", "AIMOCK_API_KEY", "--price", "1/2", "--no-input", "--no-probe"),
        )
        server.start()
        yield server, seed_account(server)


@pytest.fixture
def client(served: tuple[GatewayServer, SeededAccount]) -> openai.OpenAI:
    server, account = served
    return openai.OpenAI(base_url=server.base_url, api_key=account.api_key, max_retries=0)


def ask(client: Any, text: str, **options: Any) -> Any:
    messages = [{"role": "user", "content": text}]
    return client.chat.completions.create(model="aimock/gpt-4o", messages=messages, **options)


def test_its_answer_arrives_with_its_price(client, served):
    answer = ask(client, "hello")

    usage = answer.usage.model_dump()
    price = Decimal("0.000001") * usage["prompt_tokens"]
    price += Decimal("0.000002") * usage["completion_tokens"]
    assert answer.choices[0].message.content == "Hi from elsewhere, friend!"
    assert Decimal(repr(usage["cost"])) == price
    entries = served[0].manage("ledger", "--generation", answer.id)["entries"]
    assert [entry["amount_nano"] for entry in entries] == [int(price * 10**9)]


def test_its_stream_arrives_whole(client):
    chunks = list(ask(client, "hello", stream=True))

    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks)
    assert text == "Hi from elsewhere, friend!"
    assert chunks[-1].usage.completion_tokens > 0
    assert chunks[-2].choices[0].finish_reason == "stop"


def test_its_tool_calls_arrive_in_fragments(client):
    chunks = list(ask(client, "weather", stream=True, tools=[WEATHER]))

    calls = [call for chunk in chunks for call in chunk.choices[0].delta.tool_calls or ()]
    assert calls[0].function.name == "get_weather"
    assert "".join(call.function.arguments or "" for call in calls) == '{"city":"Paris"}'
    assert chunks[-2].choices[0].finish_reason == "tool_calls"


def test_its_refusal_of_an_unknown_prompt_is_told(client):
    with pytest.raises(openai.APIStatusError) as refused:
        ask(client, "something no fixture knows")

    assert refused.value.response.json()["error"]["metadata"]["provider_name"]


def test_the_books_agree_afterwards(served):
    assert served[0].manage("audit_ledger")["mismatches"] == []
