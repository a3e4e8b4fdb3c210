"""Redis Cluster, as its one node that has everything of the gateway.

A script, a transaction and a blocking read of several queues want their keys on one node, and
Celery speaks to one alone. So every key begins with `SLOT_TAG`, by which a cluster places it. A
cluster makes the gateway outlive a node, not its store larger.
"""

from collections import deque
from typing import Any, Final

import redis
from redis.backoff import NoBackoff
from redis.exceptions import AskError, ClusterDownError, MovedError, TryAgainError
from redis.retry import Retry

from gateway.environment.redis_url import SLOT_TAG

_NODE_OPTIONS: Final = ("username", "password", "socket_timeout", "socket_connect_timeout")


class ClusterConnection(redis.Connection):
    """Connects to the primary of the tag's slot, which any of `nodes` names.

    What it reads from a node that has the slot no more is a lost connection, so that the next
    attempt asks anew. `nodes` is shared by the connections of a pool: each asks another one first.
    """

    def __init__(self, *, nodes: deque[tuple[str, int]], **options: Any) -> None:
        super().__init__(**options)  # type: ignore[no-untyped-call]  # redis-py has no types here.
        self._nodes = nodes
        self._node_options: dict[str, Any] = {
            "ssl": isinstance(self, redis.SSLConnection),
            **{name: options.get(name) for name in _NODE_OPTIONS},
            **{name: value for name, value in options.items() if name.startswith("ssl_")},
        }

    def _connect(self) -> Any:
        self.host, self.port = self._find_primary()
        return super()._connect()  # type: ignore[no-untyped-call]  # Nor here.

    def _find_primary(self) -> tuple[str, int]:
        error: Exception | None = None
        for _ in range(len(self._nodes)):
            host, port = self._nodes[0]
            # Before it is asked: a caller may be torn away from one that says nothing.
            self._nodes.rotate(-1)
            node = redis.Redis(host, port, retry=Retry(NoBackoff(), 0), **self._node_options)
            try:
                node.exists(SLOT_TAG)
            except MovedError as moved:
                return moved.host or host, moved.port
            except redis.RedisError as trouble:
                error = trouble
            else:
                return host, port
            finally:
                node.close()
        raise redis.ConnectionError("No node of the cluster knows the primary") from error

    def read_response(self, *args: Any, **options: Any) -> Any:
        try:
            return super().read_response(*args, **options)
        except (AskError, ClusterDownError, TryAgainError) as error:
            self.disconnect()  # type: ignore[no-untyped-call]  # Nor here.
            raise redis.ConnectionError(f"Another node has the slot: {error}") from error


class TlsClusterConnection(ClusterConnection, redis.SSLConnection):
    """By TLS: nodes and primary prove that they are whom the URL, or a node, named."""
