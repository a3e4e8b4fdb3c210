"""Official Node clients, unmodified, against every wire kind. `make conformance-node` runs this."""

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.asking import PERSONAS
from tests.conformance.desk import Desk

RUN_S = 60
WEATHER = {"name": "weather", "arguments": {"city": "Oslo"}}
# What the model of every script says, in the order in which the script asks.
STEPS: list[dict[str, Any]] = [
    {"text": "A plain answer."},
    {"text": "A streamed answer."},
    {"reasoning": "I look.", "tool_calls": [WEATHER]},
    {"text": "It rains in Oslo."},
    {"text": '{"n": 1}'},
    {"fault": "429"},
]


@pytest.fixture(scope="session")
def folder() -> Path:
    """Where packages and scripts are."""
    return Path(os.environ["GATEWAY_NODE_CLIENTS"])


@pytest.mark.parametrize(
    "script", ["openai-chat.mjs", "openai-responses.mjs", "anthropic.mjs", "ai-sdk.mjs"]
)
def test_a_client_says_and_hears_everything(
    folder: Path, wire_desk: Desk, kind: str, script: str
) -> None:
    wire_desk.upstream.script(f"{PERSONAS[kind]}-a", *STEPS)

    run_script(folder, wire_desk, script)

    assert len(wire_desk.upstream.requests()) == len(STEPS)


@pytest.mark.parametrize("kind", ["openai"])
def test_a_client_calls_every_method_with_a_counterpart(folder: Path, own_wire_desk: Desk) -> None:
    run_script(folder, own_wire_desk, "openrouter.mjs")


def run_script(folder: Path, desk: Desk, script: str) -> None:
    """Run a script to its end for the desk's caller."""
    account = desk.account
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "GATEWAY_URL": desk.server.root_url,
        "GATEWAY_KEY": account.api_key,
        "GATEWAY_KEY_HASH": account.api_key_hash,
        "GATEWAY_MANAGEMENT_KEY": account.management_key,
        "GATEWAY_USER": account.user_id,
        "GATEWAY_WORKSPACE": account.workspace_id,
        "GATEWAY_MODEL": desk.model,
    }
    done = subprocess.run(
        ["node", script],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=RUN_S,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.strip().endswith("done")
