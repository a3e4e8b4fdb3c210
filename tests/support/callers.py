"""Callers over plain sockets: many at once, and none that hides how its answer ended."""

import json
import os
import random
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, TypeVar

from routing.simulator.testing import RawConnection
from tests.support.gateways import SeededAccount
from tests.support.server import GatewayServer, as_json
from tests.support.wires import begin_request

DONE = b"data: [DONE]\n\n"
T = TypeVar("T")


@dataclass(slots=True)
class Heard:
    """What one caller got; `body` is parsed where it came in full, a stream's being its last chunk.

    `status` is 0 where no head came. `cache_status` is a HIT, a MISS or SHARED where an answer of
    others might do. `broke` names what ended an answer too early.
    """

    tag: str
    status: int = 0
    generation_id: str | None = None
    cache_status: str | None = None
    body: Any = None
    broke: str = ""

    @property
    def cost_nano(self) -> int | None:
        """What a whole answer says it cost; None where there was no whole answer."""
        usage = self.body.get("usage") if isinstance(self.body, dict) else None
        return None if usage is None else int(Decimal(usage["cost"]) * 1_000_000_000)


def new_key(server: GatewayServer, account: SeededAccount, **body: Any) -> str:
    """The string of one more inference key; `body` as POST /keys takes it."""
    response = server.post(
        "/api/v1/keys", key=account.management_key, json={"name": "another", **body}
    )
    assert response.status_code == 201, response.text
    string: str = as_json(response)["key"]
    return string


def begin(port: int, key: str, **body: Any) -> RawConnection:
    """A chat request on a connection that the test can drop."""
    lines = ("Content-Type: application/json", "Connection: close")
    return begin_request(port, key, body, *lines, timeout_s=40)


def ask(port: int, key: str, *, tag: str, **body: Any) -> Heard:
    """One request on a connection of its own, `tag` its `user`; breaking off is an answer too."""
    heard = Heard(tag)
    try:
        wire = begin(port, key, user=tag, **body)
        try:
            heard.status, headers = wire.head()
            heard.generation_id = headers.get("x-generation-id")
            heard.cache_status = headers.get("x-router-cache-status")
            heard.body = _parse_answer(wire.body(headers), headers["content-type"])
        finally:
            wire.close()
    except (OSError, EOFError) as error:
        heard.broke = type(error).__name__
    return heard


def _parse_answer(body: bytes, content_type: str) -> Any:
    if content_type == "application/json":
        return json.loads(body, parse_float=Decimal)
    last = body.removesuffix(DONE).rstrip().rsplit(b"\n\n", 1)[-1].removeprefix(b"data: ")
    chunk = json.loads(last, parse_float=Decimal)
    # A stream that ends with an error chunk has no `[DONE]`, and must have no usage either.
    assert body.endswith(DONE) != ("error" in chunk), body[-500:]
    return chunk


def seeded_random() -> random.Random:
    """A random source whose seed is shown with a failure; GATEWAY_TEST_SEED repeats a run."""
    seed = int(os.environ.get("GATEWAY_TEST_SEED", random.randrange(2**32)))
    sys.stdout.write(f"seed {seed}\n")
    return random.Random(seed)


def at_a_time(threads: int, count: int, work: Callable[[int], T]) -> list[T]:
    """`work` of 0 to `count` - 1, that many at a time; the first of them begin together."""
    barrier = threading.Barrier(min(threads, count))

    def one(number: int) -> T:
        if number < barrier.parties:
            barrier.wait()
        return work(number)

    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(one, range(count)))
