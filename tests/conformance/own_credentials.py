"""Credentials that a desk's team brings, and which one reached the upstream."""

from hashlib import sha256
from typing import Any

import requests

from tests.conformance.desk import Desk
from tests.support.server import as_json

MINE = "sk-mine-0123456789abcdef"


def fingerprint(key: str) -> str:
    """How the simulated upstream logs a credential."""
    return "sha256:" + sha256(key.encode()).hexdigest()[:16]


SHARED = fingerprint("gamma-credential")


def refusal(status: int, text: str = "no") -> dict[str, Any]:
    """How an upstream is scripted to fail."""
    return {"status": status, "json": {"error": {"message": text}}}


def priced_nano(usage: Any) -> int:
    """What an answer of these endpoints costs on credits, all of them at one and two dollars."""
    return int(usage["prompt_tokens"] * 1000 + usage["completion_tokens"] * 2000)


def ask(desk: Desk, method: str, path: str = "", body: Any = None) -> requests.Response:
    return desk.manage(method, f"/byok{path}", body)


def bring(desk: Desk, provider: str, key: str, **said: Any) -> Any:
    """A new credential of the desk's workspace, as it is shown; the upstream forgets being asked
    about it."""
    whose = {"provider": provider, "key": key, "workspace_id": desk.account.workspace_id}
    answer = ask(desk, "POST", body=whose | said)
    assert answer.status_code == 201, answer.text
    desk.upstream.clear()
    return as_json(answer)["data"]


def credentials_at(desk: Desk, persona: str | None = None) -> list[str]:
    """Fingerprints of what the upstream was called with, oldest first."""
    calls = [entry for entry in desk.upstream.requests(persona) if entry["method"] == "POST"]
    names = ("authorization", "x-api-key")
    return [next(e["headers"][name] for name in names if name in e["headers"]) for e in calls]
