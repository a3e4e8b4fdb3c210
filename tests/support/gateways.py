"""Gateways for tests, and fresh accounts on them."""

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Self

from tests.support.bed import PROJECT, Bed
from tests.support.server import GatewayServer


class StartGateway:
    """Starts servers in folders of their own and takes them away again.

    `start_gateway(ROUTER_IDLE_TIMEOUT="0.5")` gives a running server on a new migrated database,
    without a catalogue. Keyword arguments in capitals are settings; `redis_url="none"` leaves Redis
    out; `database_url` names a database that exists already; `worker` adds a Celery worker.
    """

    def __init__(self, bed: Bed, folder: Path) -> None:
        self._bed = bed
        self._folder = folder
        self._servers: list[GatewayServer] = []
        self._databases: list[str] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for server in self._servers:
            server.kill()  # Nothing of theirs outlives the test, so nobody waits for grace.
            server.stop()
        for url in self._databases:
            self._bed.drop(url)

    def __call__(self, **options: Any) -> GatewayServer:
        server = self.build(**options)
        server.start()
        return server

    def with_catalogue(self, catalogue: str, **options: Any) -> GatewayServer:
        """The same with the text of a catalogue file loaded."""
        server = self.build(**options)
        file = server.folder / "catalogue.yaml"
        file.write_text(catalogue, encoding="utf-8")
        server.manage("load_catalogue", str(file))
        server.start()
        return server

    def two_with_catalogue(
        self, catalogue: str, *, second: Mapping[str, str] | None = None, **options: Any
    ) -> tuple[GatewayServer, GatewayServer]:
        """Two of one installation, which share stores and secrets; `second` is for the other."""
        one = self.with_catalogue(catalogue, **options)
        own = {"GATEWAY_HOME": one.env["GATEWAY_HOME"], **(second or {})}
        return one, self(database_url=one.env["DATABASE_URL"], **(options | own))

    def build(
        self,
        *,
        worker: bool = False,
        database_url: str = "",
        redis_url: str = "",
        project: Path = PROJECT,
        is_forked: bool = True,
        **env: str,
    ) -> GatewayServer:
        """The same, not started yet; `project` is the checkout that it runs. It is
        `is_forked` but in tests of starts and stops, and wherever GATEWAY_TEST_FORKS is 0."""
        home = self._folder / f"gateway-{len(self._servers)}"
        home.mkdir()
        redis = "" if redis_url == "none" else redis_url or self._bed.redis_url
        base = self._bed.environment(
            home=home, database_url=database_url or self._new_database(), redis_url=redis
        )
        server = GatewayServer(
            env=base | env, folder=home, worker=worker, project=project, is_forked=is_forked
        )
        self._servers.append(server)
        return server

    def _new_database(self) -> str:
        url = self._bed.create()
        self._databases.append(url)
        return url


@dataclass(frozen=True)
class SeededAccount:
    """A fresh account on a running server. Ids and keys as `seed_keys` told them."""

    name: str
    account_id: str
    workspace_id: str
    user_id: str
    api_key: str
    api_key_hash: str
    management_key: str


_numbers = itertools.count(1)


def seed_account(server: GatewayServer, *, credits_usd: str = "5") -> SeededAccount:
    """An account nobody has used, with a workspace, both keys and that much credit."""
    name = f"account-{next(_numbers)}"
    seeded = server.manage(
        "seed_keys", "--account", name, "--workspace", "main", "--credits", credits_usd
    )
    told = {field.name: seeded[field.name] for field in fields(SeededAccount)[1:]}
    return SeededAccount(name=name, **told)
