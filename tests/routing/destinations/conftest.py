"""A receiver on loopback, which destinations may send to."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.receiver import Receiver, serve_receiver


@pytest.fixture
def receiver(settings: Any) -> Iterator[Receiver]:
    settings.DESTINATION_PRIVATE_HOSTS = frozenset({"127.0.0.1"})
    with serve_receiver() as site:
        yield site
        from gateway.outbound.doors import door_for

        door_for("127.0.0.1", private={"127.0.0.1"}).close_idle()
