"""Decisions over llama.cpp's server with a tiny random model. `make test-engines` runs this.

Nothing is downloaded. The server is `llama-server` (or what `LLAMA_SERVER` names), else that of the
package xllamacpp in the Python that `ENGINE_PYTHON` names, else in this one.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import requests
import yaml

from routing.decisions import logprobs
from routing.decisions.question import TypedQuestion, render_text
from routing.formats.decisions import read_questions
from tests.conformance.deciding import check
from tests.engines.tiny_gguf import write_tiny_model
from tests.support.gateways import SeededAccount, StartGateway, seed_account
from tests.support.postgres import free_port
from tests.support.processes import eventually, spawn, stop
from tests.support.server import GatewayServer

_SERVE = Path(__file__).with_name("serve_xllamacpp.py")
_START_S = 30
MISSING = (
    "no engine is installed: put llama-server on the PATH (or name it in LLAMA_SERVER), or name in "
    "ENGINE_PYTHON a Python that has the package xllamacpp"
)
# The model's only labels are these marks, and so are its questions'.
STATE = {"message": "The parcel came broken.", "customer": {"since": 2019}}
QUESTIONS: dict[str, Any] = {
    "refund": {"type": "noul", "instructions": "Is money asked for?"},
    "known": {
        "type": "noul",
        "instructions": "Is the customer known?",
        "criteria": {"true": "A year is given", "false": "None is given"},
    },
    "team": {
        "type": "choice",
        "instructions": "Who should answer?",
        "criteria": {"billing": None, "support": "Anything that broke", "sales": None},
    },
    "mood": {"type": "score", "instructions": "How angry?", "criteria": ["calm", "cross", "livid"]},
}


def command(model: Path, port: int) -> Sequence[str | Path]:
    """What serves the model. Skips the test where nothing can."""
    binary = os.environ.get("LLAMA_SERVER") or shutil.which("llama-server")
    if binary:
        options = ("--host", "127.0.0.1", "--port", str(port), "-c", "4096", "-t", "1", "--jinja")
        return [binary, "-m", str(model), *options]
    python = os.environ.get("ENGINE_PYTHON", sys.executable)
    has = subprocess.run([python, "-c", "import xllamacpp"], capture_output=True, check=False)
    if has.returncode:
        pytest.skip(MISSING)
    return [python, str(_SERVE), str(model), str(port)]


@pytest.fixture(scope="module")
def engines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """The addresses of a server whose model chats, and of one whose model decides."""
    folder = tmp_path_factory.mktemp("engines")
    running, urls = [], {}
    try:
        for name in ("chat", "native"):
            model, log, port = folder / f"{name}.gguf", folder / f"{name}.log", free_port()
            write_tiny_model(model, decides=name == "native")
            running.append(spawn(command(model, port), log=log))
            urls[name] = url = f"http://127.0.0.1:{port}"
            eventually(partial(_is_up, url), within_s=_START_S, what=name, log=log)
        yield urls
    finally:
        for each in running:
            stop(each, grace_s=5)


def _is_up(url: str) -> bool:
    try:
        return requests.get(f"{url}/health", timeout=1).ok
    except requests.ConnectionError:
        return False


@pytest.fixture(scope="module")
def served_engines(
    engines: dict[str, str], stores: Any, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[GatewayServer, SeededAccount]]:
    """A gateway in front of both, and an account on it."""
    with StartGateway(stores, tmp_path_factory.mktemp("gateway")) as starter:
        server = starter.with_catalogue(yaml.safe_dump(catalogue(engines)))
        yield server, seed_account(server)


def catalogue(engines: dict[str, str]) -> dict[str, Any]:
    kinds = {"chat": "openai", "native": "decisions"}
    takes = {"chat": ["max_tokens", "temperature", "logprobs", "top_logprobs"], "native": []}
    price = {"prompt": "0.000001", "completion": "0.000002"}
    return {
        "providers": [
            {"slug": name, "name": name, "kind": kinds[name], "base_url": f"{url}/v1"}
            for name, url in engines.items()
        ],
        "models": [
            {
                "id": f"tiny/{name}",
                "name": f"Tiny {name}",
                "context_length": 4096,
                "output_modalities": ["text" if name == "chat" else "decisions"],
                "endpoints": [
                    {
                        "provider": name,
                        "upstream_model": "tiny",
                        "pricing": price,
                        "supported_parameters": takes[name],
                    }
                ],
            }
            for name in engines
        ],
    }


def decide_well(served_engines: tuple[GatewayServer, SeededAccount], model: str) -> dict[str, Any]:
    """A good answer of the gateway's."""
    server, account = served_engines
    body = {"model": model, "state": STATE, "questions": QUESTIONS}
    headers = {"X-Router-Metadata": "enabled"}
    for path in ("/api/alpha/decisions", "/api/v1/systemone"):
        answer = server.request("POST", path, key=account.api_key, json=body, headers=headers)
        assert answer.status_code == 200, answer.text
    told: dict[str, Any] = answer.json()
    assert list(told["answers"]) == list(QUESTIONS)
    for name, each in told["answers"].items():
        check(QUESTIONS[name], each)
    assert told["usage"]["input_tokens"] > 0
    assert told["usage"]["cost"] > 0
    return told


def asked_directly(url: str, question: TypedQuestion) -> tuple[float, ...]:
    """What the engine thinks of a question that it is asked as the gateway asks it."""
    body = logprobs.build_request(render_text(STATE), question)
    del body["reasoning"]
    answer = requests.post(f"{url}/v1/chat/completions", json={"model": "tiny", **body}, timeout=30)
    return logprobs.read_judgement(question, answer.json()["choices"][0]["logprobs"]).probabilities


def shares_of(answer: dict[str, Any]) -> list[float]:
    if answer["type"] == "noul":
        return [answer["noul"], 1 - answer["noul"]]
    return list(answer["probabilities"].values())


def test_a_chat_model_answers_by_its_log_probabilities(
    engines: dict[str, str], served_engines: tuple[GatewayServer, SeededAccount]
) -> None:
    told = decide_well(served_engines, "tiny/chat")

    questions = read_questions({"questions": QUESTIONS})
    for name, answer in told["answers"].items():
        meant = asked_directly(engines["chat"], questions[name])
        assert shares_of(answer) == pytest.approx(meant, abs=0.01), name
    # Nobody could guess what it says, but it says something.
    assert any(abs(share - 0.5) > 0.01 for share in shares_of(told["answers"]["refund"]))
    [stage] = told["router_metadata"]["pipeline"]
    assert (stage["type"], stage["data"]["method"]) == ("decisions", "logprobs")
    # The model spreads the marks' probability over those of all questions.
    assert all(0 < mass <= 1 for mass in stage["data"]["label_mass"].values())
    assert told["usage"]["output_tokens"] == len(QUESTIONS)


def test_a_model_that_decides_is_asked_as_it_is(
    engines: dict[str, str], served_engines: tuple[GatewayServer, SeededAccount]
) -> None:
    told = decide_well(served_engines, "tiny/native")

    body = {"model": "tiny", "state": STATE, "questions": QUESTIONS}
    own = requests.post(f"{engines['native']}/v1/systemone", json=body, timeout=30).json()
    for name, answer in told["answers"].items():
        assert shares_of(answer) == pytest.approx(shares_of(own["answers"][name]), abs=0.01), name
    assert told["usage"]["input_tokens"] == own["usage"]["input_tokens"]
    assert told["provider"] == "native"


def test_a_chat_model_is_no_native_one(engines: dict[str, str]) -> None:
    """So that the two ways above are two."""
    body = {"model": "tiny", "state": STATE, "questions": QUESTIONS}

    assert (
        requests.post(f"{engines['chat']}/v1/systemone", json=body, timeout=30).status_code == 501
    )


def test_a_server_decides_from_the_moment_it_was_added(
    engines: dict[str, str], served_engines: tuple[GatewayServer, SeededAccount]
) -> None:
    server, _ = served_engines
    where = ("--base-url", f"{engines['chat']}/v1")

    added = server.manage("add_provider", "llama", *where, "--price", "1/2", "--no-input")

    [model] = added["enabled"]
    assert added["probed"][model]["logprobs"] == "yes"
    server.wait_until(lambda: server.get(f"/api/v1/model/{model}").ok, within_s=_START_S)
    [stage] = decide_well(served_engines, model)["router_metadata"]["pipeline"]
    assert stage["data"]["method"] == "logprobs"
