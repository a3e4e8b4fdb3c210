"""Objects that requests made from the OpenAPI description are about: each is there."""

import itertools
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from tempfile import NamedTemporaryFile
from typing import Any

from tests.support.gateways import SeededAccount
from tests.support.server import GatewayServer

MODEL = "acme/solo"
PROVIDER = "alpha"
_numbers = itertools.count(1)
_WEBHOOK_CHANNEL = {
    "name": "Receiver",
    "type": "webhook",
    "url": "https://receiver.example/events",
}
_FILTER = {"slug": "email", "action": "flag"}
_CHAT = {"model": MODEL, "messages": [{"role": "user", "content": "Hello"}]}
_DECISION = {
    "model": MODEL,
    "state": "Open",
    "questions": {"open": {"type": "noul", "instructions": "Is it open?"}},
}
# Of bodies that may say so much few made-up ones are good.
_SPENDING: Mapping[str, dict[str, Any]] = {
    "/chat/completions": _CHAT,
    "/messages": {**_CHAT, "max_tokens": 10},
    "/messages/count_tokens": _CHAT,
    "/responses": {"model": MODEL, "input": "Hello"},
    "/systemone": _DECISION,
    "/embeddings": {"model": "acme/vectors", "input": "Hello"},
}


@dataclass(frozen=True)
class Objects:
    """Makes what it is asked for, anew each time: it may be deleted."""

    server: GatewayServer
    account: SeededAccount

    def path_parameters(self, path: str, names: set[str]) -> dict[str, str] | None:
        """Values for an operation's path; those that nothing here is called are left to chance."""
        if path in _PATHS:
            return _PATHS[path](self)
        return {name: _NAMED[name](self) for name in names if name in _NAMED} or None

    def good_body(self, label: str) -> dict[str, Any] | None:
        """A body for operations whose fields depend on each other: few made-up ones fit."""
        path = label.removeprefix("POST /api/v1").removeprefix("/presets/{slug}")
        if path in _SPENDING:
            return dict(_SPENDING[path])
        return _BODIES[label](self) if label in _BODIES else None

    def query(self, path: str) -> dict[str, str] | None:
        return _QUERIES[path](self) if path in _QUERIES else None

    def in_body(self, name: str) -> Any:
        return _IN_BODIES[name](self)

    def generation(self) -> str:
        return str(self.server.chat(key=self.account.api_key, **_CHAT).json()["id"])

    def kept_generation(self) -> str:
        """One whose content is kept: those of the next moment, before the key is read again, are
        not."""
        workspace = f"/api/v1/workspaces/{self.account.workspace_id}"
        self._send("PATCH", workspace, {"is_observability_io_logging_enabled": True})
        made: list[str] = []

        def has_content() -> bool:
            made.append(self.generation())
            return self._has_content(made[-1])

        self.server.wait_until(has_content)
        return made[-1]

    def key(self) -> str:
        return str(self._create("/api/v1/keys", {"name": "k"})["hash"])

    def workspace(self) -> str:
        body = {"name": "W", "slug": f"w-{next(_numbers)}"}
        return str(self._create("/api/v1/workspaces", body)["id"])

    def guardrail(self) -> str:
        body = {"name": "Careful", "content_filter_builtins": [_FILTER]}
        return str(self._create("/api/v1/guardrails", body)["id"])

    def app(self) -> str:
        body = {"callback_url": f"https://app-{next(_numbers)}.example/back"}
        return str(self._create("/api/v1/auth/keys/code", body)["app_id"])

    @cached_property
    def group(self) -> str:
        """One for all, because only a command makes any."""
        with NamedTemporaryFile("w", suffix=".json") as file:
            file.write(json.dumps({"everybody": [self.account.user_id]}))
            file.flush()
            command = ("fill_scim_groups", "--account", self.account.name, "--file", file.name)
            self.server.manage(*command)
        key = self.account.management_key
        groups = self.server.get("/api/v1/scim/groups", key=key).json()["data"]
        return str(groups[0]["id"])

    def mapping(self) -> str:
        return str(self._create("/api/v1/scim/group-mappings", self.new_mapping())["id"])

    def job(self) -> str:
        return str(self._create("/api/v1/scim/sync-jobs", {})["id"])

    def new_mapping(self) -> dict[str, Any]:
        return {
            "scim_group_id": self.group,
            "workspace_id": self.workspace(),
            "role": "member",
        }

    def channel(self) -> str:
        return str(self._create("/api/v1/notifications/channels", _WEBHOOK_CHANNEL)["id"])

    def delivery(self) -> str:
        path = f"/api/v1/notifications/channels/{self.channel()}/test"
        return str(self._create(path, {})["id"])

    def new_destination(self) -> dict[str, Any]:
        """In a workspace of its own, because a workspace has few of a type."""
        config = {"url": "https://receiver.example/traces"}
        return {
            "name": "Receiver",
            "type": "webhook",
            "config": config,
            "workspace_id": self.workspace(),
        }

    def destination(self) -> str:
        path = "/api/v1/observability/destinations"
        return str(self._create(path, self.new_destination())["id"])

    def authorization_code(self) -> dict[str, Any]:
        body = {"callback_url": f"https://app-{next(_numbers)}.example/back"}
        return {"code": self._create("/api/v1/auth/keys/code", body)["id"]}

    def credential(self) -> str:
        body = {"provider": PROVIDER, "key": "k-of-our-own"}
        return str(self._create("/api/v1/byok", body)["id"])

    def intern(self) -> str:
        body = {"name": f"intern-{next(_numbers)}"}
        key = self.account.api_key
        return str(self._send("POST", "/api/v1/interns", body, key=key)["id"])

    def secret(self, vault: str = "/api/v1/vault") -> str:
        """The name of one that the workspace has, or an intern."""
        name, body = f"secret_{next(_numbers)}", {"value": "v", "hosts": ["example.com"]}
        self._send("PUT", f"{vault}/secrets/{name}", body, key=self.account.api_key)
        return name

    def secret_of_intern(self) -> dict[str, str]:
        intern = self.intern()
        return {"intern_id": intern, "name": self.secret(f"/api/v1/vault/interns/{intern}")}

    def budget(self) -> dict[str, str]:
        workspace = self.workspace()
        path = f"/api/v1/workspaces/{workspace}/budgets/monthly"
        self._send("PUT", path, {"limit_usd": 10})
        return {"workspace": workspace, "interval": "monthly"}

    def preset(self) -> dict[str, str]:
        """Of the workspace that management keys see first."""
        slug = f"preset-{next(_numbers)}"
        path = f"/api/v1/presets/{slug}/chat/completions"
        self._send("POST", path, {"temperature": 0.5}, key=self.account.api_key)
        return {"slug": slug}

    def _has_content(self, generation: str) -> bool:
        path = f"/api/v1/generation/content?id={generation}"
        return self.server.get(path, key=self.account.management_key).status_code == 200

    def _create(self, path: str, body: dict[str, Any]) -> Any:
        return self._send("POST", path, body)["data"]

    def _send(self, method: str, path: str, body: dict[str, Any], *, key: str = "") -> Any:
        key = key or self.account.management_key
        answer = self.server.request(method, path, key=key, json=body)
        assert answer.ok, answer.text
        return answer.json()


# What a variable of a path, a query or a field of a body may be called, and how one that exists is
# made. A new kind of object is a line here; without it, it is tried with made-up names alone.
_NAMED: Mapping[str, Callable[[Objects], str]] = {
    "author": lambda objects: "acme",
    "slug": lambda objects: "small",
    "key_hash": Objects.key,
    "workspace": Objects.workspace,
    "guardrail": Objects.guardrail,
    "intern_id": Objects.intern,
    "name": Objects.secret,
    "credential": Objects.credential,
    "app": Objects.app,
    "mapping": Objects.mapping,
    "job": Objects.job,
    "channel": Objects.channel,
    "delivery": Objects.delivery,
    "destination": Objects.destination,
    "generation_id": Objects.generation,
}
_PRESET = "/api/v1/presets/{slug}"
_PATHS: Mapping[str, Callable[[Objects], dict[str, str]]] = {
    "/api/v1/workspaces/{workspace}/budgets/{interval}": Objects.budget,
    "/api/v1/vault/interns/{intern_id}/secrets/{name}": Objects.secret_of_intern,
    _PRESET: Objects.preset,
    f"{_PRESET}/versions": Objects.preset,
    f"{_PRESET}/versions/{{version}}": lambda objects: {**objects.preset(), "version": "1"},
}
_QUERIES: Mapping[str, Callable[[Objects], dict[str, str]]] = {
    "/api/v1/generation": lambda objects: {"id": objects.generation()},
    "/api/v1/generation/content": lambda objects: {"id": objects.kept_generation()},
}
_BODIES: Mapping[str, Callable[[Objects], dict[str, Any]]] = {
    "POST /api/v1/auth/keys": Objects.authorization_code,
    "POST /api/v1/oauth/token": lambda objects: {
        "grant_type": "urn:ietf:params:oauth:grant-type:token-exchange",
        "subject_token": objects.account.api_key,
        "subject_token_type": "urn:ietf:params:oauth:token-type:access_token",
    },
    "POST /api/v1/notifications/channels": lambda objects: dict(_WEBHOOK_CHANNEL),
    "PATCH /api/v1/notifications/channels/{channel}": lambda objects: {"name": "Renamed"},
    "POST /api/v1/observability/destinations": Objects.new_destination,
    "PATCH /api/v1/observability/destinations/{destination}": lambda objects: {"name": "Renamed"},
    "PATCH /api/v1/byok/{credential}": lambda objects: {"name": "Renamed"},
    "POST /api/v1/privacy/erasures": lambda objects: {"user": "nobody"},
    "POST /api/v1/routing/what-if": lambda objects: {},
    "POST /api/v1/scim/group-mappings": Objects.new_mapping,
    "POST /api/alpha/decisions": lambda objects: dict(_DECISION),
}
_IN_BODIES: Mapping[str, Callable[[Objects], Any]] = {
    "model": lambda objects: MODEL,
    "user_ids": lambda objects: [objects.account.user_id],
    "member_user_ids": lambda objects: [objects.account.user_id],
    "key_hashes": lambda objects: [objects.key()],
    "generation_id": Objects.generation,
    "names": lambda objects: [objects.secret()],
    "hosts": lambda objects: ["example.com"],
    # Few numbers are whole in nano-USD.
    "limit_usd": lambda objects: 10,
    "provider": lambda objects: PROVIDER,
    "callback_url": lambda objects: "https://app.example/back",
}
NAMES_IN_BODIES = frozenset(_IN_BODIES)
