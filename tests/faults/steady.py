"""Callers that ask again and again over connections they keep, until told to stop."""

import itertools
import json
import threading
import time
from dataclasses import dataclass
from decimal import Decimal
from http.client import HTTPConnection, HTTPException
from typing import Any, Self
from urllib.parse import urlsplit

from tests.conformance.desk import CHAT, Desk, nano
from tests.support import processes

# A caller who was answered asks again after this; refusals come fast, and a hot loop would only
# measure the machine.
PAUSE_S = 0.02
PATIENCE_S = 120.0


@dataclass(frozen=True, slots=True)
class Asked:
    """One request and its answer. `status` 0: the connection broke. Times are monotonic."""

    tag: str
    begun_at: float
    ended_at: float
    status: int
    headers: dict[str, str]
    body: Any

    @property
    def took_s(self) -> float:
        return self.ended_at - self.begun_at

    @property
    def cost_nano(self) -> int:
        return nano(self.body["usage"]["cost"])


class Steady:
    """`with Steady(desk, callers=8) as load:`; `load.asked` grows while the block runs.

    Every request says its tag in its message, which the upstream sees, and as its `user`, which the
    record keeps.
    """

    def __init__(self, desk: Desk, *, callers: int, pause_s: float = PAUSE_S) -> None:
        self.asked: list[Asked] = []
        self._desk = desk
        self._pause_s = pause_s
        self._enough = threading.Event()
        self._numbers = itertools.count(1)
        self._threads = [threading.Thread(target=self._ask_on) for _ in range(callers)]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._enough.set()
        for thread in self._threads:
            thread.join(PATIENCE_S)

    def since(self, moment: float) -> list[Asked]:
        """What was begun after that moment."""
        return [one for one in list(self.asked) if one.begun_at >= moment]

    def wait_until(
        self, status: int, count: int, *, since: float, within_s: float = PATIENCE_S
    ) -> None:
        """Until that many requests begun since then were answered so."""

        def enough() -> bool:
            return sum(one.status == status for one in self.since(since)) >= count

        processes.eventually(
            enough,
            within_s=within_s,
            what=f"{count} answers {status}",
            log=self._desk.server.folder / "web.log",
        )

    def _ask_on(self) -> None:
        where = urlsplit(self._desk.server.root_url).netloc
        connection = HTTPConnection(where, timeout=PATIENCE_S)
        try:
            while not self._enough.is_set():
                self.asked.append(self._ask(connection, f"caller-{next(self._numbers)}"))
                self._enough.wait(self._pause_s)
        finally:
            connection.close()

    def body(self, tag: str) -> dict[str, Any]:
        """What is asked."""
        return {
            "model": self._desk.model,
            "user": tag,
            "messages": [{"role": "user", "content": tag}],
        }

    def _ask(self, connection: HTTPConnection, tag: str) -> Asked:
        body = self.body(tag)
        headers = {
            "Authorization": f"Bearer {self._desk.account.api_key}",
            "Content-Type": "application/json",
        }
        begun_at = time.monotonic()
        try:
            connection.request("POST", CHAT, json.dumps(body), headers)
            if connection.sock is not None:
                connection.auto_open = 0  # From now on a connection that breaks stays broken.
            response = connection.getresponse()
            told = {name.lower(): value for name, value in response.getheaders()}
            text = response.read().decode()
        except (OSError, HTTPException, ValueError) as error:
            return Asked(tag, begun_at, time.monotonic(), 0, {}, repr(error))
        parsed = json.loads(text, parse_float=Decimal)
        return Asked(tag, begun_at, time.monotonic(), response.status, told, parsed)


def upstream_tags(desk: Desk) -> list[str]:
    """The tags of the requests that reached a provider."""
    return [entry["body"]["messages"][-1]["content"] for entry in desk.upstream.requests()]
