"""Processes that share a shared cache. This file is read before Django is set up."""

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
import redis

from tests.support.valkey import ValkeyServer

if TYPE_CHECKING:
    from routing.entities.entries import EndpointEntry
    from tests.routing.serving.learning import Clock
    from tests.routing.serving.processes import Process, Start


@pytest.fixture
def clock() -> "Clock":
    from tests.routing.serving.learning import Clock

    # Of the same pace as the store's own, because ages are measured by that.
    return Clock(time.monotonic())


@pytest.fixture
def start(valkey: ValkeyServer, clock: "Clock") -> "Iterator[Start]":
    from tests.routing.serving.processes import Process

    processes: list[Process] = []

    def start_() -> "Process":
        processes.append(Process(valkey.url, clock))
        return processes[-1]

    yield start_
    for process in processes:
        process.hints.close()


@pytest.fixture
def client(valkey: ValkeyServer) -> "Iterator[redis.Redis]":
    with redis.Redis.from_url(valkey.url) as found:
        yield found


@pytest.fixture
def one() -> "EndpointEntry":
    from tests.routing.serving.learning import some_endpoint

    return some_endpoint()
