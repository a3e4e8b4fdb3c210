"""Destinations and traces of these tests."""

from dataclasses import replace
from typing import Any

from routing.destinations.facts import TraceFacts
from tests.routing import callers

NANO = 1_000_000_000
PATH = "/observability/destinations"
SECRET = "sk-lf-canary-secret-0123456789"
LANGFUSE: dict[str, Any] = {
    "type": "langfuse",
    "name": "Traces",
    "config": {"publicKey": "pk-lf-1", "secretKey": SECRET},
}
WEBHOOK: dict[str, Any] = {
    "type": "webhook",
    "name": "Hook",
    "config": {"url": "https://hooks.example/in"},
}
CALLER = replace(callers.CALLER, creator_id="user-1", key_name="team key", broadcasts=True)
PLAIN = TraceFacts(
    generation_id="gen-1",
    started_ns=1_700_000_000 * NANO,
    ended_ns=1_700_000_002 * NANO,
    api_type="completions",
    model="acme/small",
    requested_model="acme/latest",
    provider="Acme",
    status=200,
    error_type=None,
    finish_reason="stop",
    prompt_tokens=12,
    completion_tokens=3,
    reasoning_tokens=1,
    cached_tokens=2,
    charge_nano=1_500_000,
    upstream_cost_nano=1_000_000,
    is_byok=False,
    latency_ms=250,
    session_id="session-1",
    user="user-raw",
    trace={},
    api_key_name="team key",
    identity={"workspace_id": "w-1", "api_key_id": 7},
    context={"request_id": "req-1", "user_agent": None},
    input=[{"role": "user", "content": "What is up?"}],
    output={"role": "assistant", "content": "The sky."},
    allocation={},
)


def facts(**changes: Any) -> TraceFacts:
    return PLAIN._replace(**changes)
