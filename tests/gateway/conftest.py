"""One store for all tests of a module, as good as new for each of them."""

from collections.abc import Iterator

import pytest

from tests.support.valkey import ValkeyServer


@pytest.fixture(scope="module")
def shared_valkey(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ValkeyServer]:
    server = ValkeyServer(tmp_path_factory.mktemp("v"))
    server.start()
    yield server
    server.stop()


@pytest.fixture
def valkey(shared_valkey: ValkeyServer) -> Iterator[ValkeyServer]:
    """A shared cache to harm."""
    yield shared_valkey
    if shared_valkey.is_running:
        shared_valkey.flush()
    else:
        shared_valkey.start()
