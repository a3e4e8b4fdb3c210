"""Credentials that a desk's team brings, and which one reached the upstream."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any

import requests

from tests.conformance.desk import Desk
from tests.support.bed import Bed
from tests.support.gateways import StartGateway
from tests.support.server import GatewayServer, as_json

MINE = "sk-mine-0123456789abcdef"
# A gateway that is started with these settings.
Serve = Callable[..., GatewayServer]


def fingerprint(key: str) -> str:
    """How the simulated upstream logs a credential."""
    return "sha256:" + sha256(key.encode()).hexdigest()[:16]


SHARED = fingerprint("gamma-credential")


@contextmanager
def serving(folder: Path, stores: Bed, catalogue: str) -> Iterator[Serve]:
    """Gateways with this catalogue that look at a key anew for every request."""
    file = folder / "catalogue.yaml"
    file.write_text(catalogue, encoding="utf-8")
    with StartGateway(stores, folder) as starter:

        def serve(**settings: Any) -> GatewayServer:
            made = starter.build(API_KEY_CACHE_SECONDS="0", **settings)
            made.manage("load_catalogue", str(file))
            made.start()
            return made

        yield serve


def assert_sound(server: GatewayServer) -> None:
    """The books agree, and nothing is held."""
    audit = server.manage("audit_ledger")
    assert (audit["mismatches"], audit["open_holds"]) == ([], 0)


def refusal(status: int, text: str = "no") -> dict[str, Any]:
    """How an upstream is scripted to fail."""
    return {"status": status, "json": {"error": {"message": text}}}


def priced_nano(usage: Any) -> int:
    """What an answer of these endpoints costs on credits, all of them at one and two dollars."""
    return int(usage["prompt_tokens"] * 1000 + usage["completion_tokens"] * 2000)


def ask(desk: Desk, method: str, path: str = "", body: Any = None) -> requests.Response:
    options = {} if body is None else {"json": body}
    key = desk.account.management_key
    return desk.server.request(method, f"/api/v1/byok{path}", key=key, **options)


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
