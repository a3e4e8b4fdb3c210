"""What a test kills under load, and how it comes back: the server, a worker of it, its stores."""

import os
import random
import signal
from collections.abc import Callable
from dataclasses import dataclass

from tests.support import processes
from tests.support.postgres import PostgresCluster
from tests.support.processes import children, is_alive
from tests.support.server import GatewayServer
from tests.support.valkey import ValkeyServer

_GONE_S = 15.0


@dataclass(frozen=True)
class Victim:
    """`kill` is a SIGKILL and returns at once; `bring_back` returns when it is ready again."""

    kill: Callable[[], None]
    bring_back: Callable[[], None]


def whole_server(server: GatewayServer) -> Victim:
    return Victim(server.kill, server.start)


def one_worker(server: GatewayServer, chance: random.Random) -> Victim:
    """Any of gunicorn's workers; its master replaces it."""
    workers = children(server.pid)
    victim = chance.choice(workers)

    def is_replaced() -> bool:
        now = children(server.pid)
        return victim not in now and len(now) == len(workers)

    return Victim(
        lambda: os.kill(victim, signal.SIGKILL),
        lambda: server.wait_until(is_replaced, within_s=_GONE_S),
    )


def postgres(cluster: PostgresCluster, server: GatewayServer) -> Victim:
    """The postmaster dies; its backends notice and follow, as they must before it can return."""
    backends: list[int] = []

    def kill() -> None:
        backends.extend(children(cluster.pid))
        os.kill(cluster.pid, signal.SIGKILL)

    def bring_back() -> None:
        cluster.stop()
        processes.eventually(
            lambda: not any(map(is_alive, backends)),
            within_s=_GONE_S,
            what="the end of PostgreSQL's backends",
            log=cluster.folder / "postgres.log",
        )
        cluster.start()
        server.wait_ready()

    return Victim(kill, bring_back)


def valkey(store: ValkeyServer) -> Victim:
    return Victim(store.stop, store.start)
