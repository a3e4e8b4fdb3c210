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
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "GATEWAY_URL": wire_desk.server.root_url,
        "GATEWAY_KEY": wire_desk.account.api_key,
        "GATEWAY_MODEL": wire_desk.model,
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
    assert len(wire_desk.upstream.requests()) == len(STEPS)
