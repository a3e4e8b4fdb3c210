"""The writer's line to PostgreSQL through a proxy, for tests that freeze or cut it."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from routing.metering import session as session_module
from routing.metering.session import Session
from tests.support.bed import Bed
from tests.support.tcp_proxy import TcpProxy


@contextmanager
def through_proxy(stores: Bed, monkeypatch: pytest.MonkeyPatch) -> Iterator[TcpProxy]:
    """While open, new sessions go through the proxy; `direct` gets past it."""
    with (
        TcpProxy("127.0.0.1", stores.postgres.port) as proxy,
        monkeypatch.context() as patched,
    ):
        dial = session_module._open_postgresql

        def dial_proxy(parameters: dict[str, Any]) -> Any:
            return dial(parameters | {"host": "127.0.0.1", "port": str(proxy.port)})

        patched.setattr(session_module, "_open_postgresql", dial_proxy)
        yield proxy


def direct() -> Session:
    """A session that no proxy stands before."""
    return _Direct()


class _Direct(Session):
    def __init__(self) -> None:
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(session_module, "_open_postgresql", _PLAIN)
            super().__init__()


_PLAIN = session_module._open_postgresql
