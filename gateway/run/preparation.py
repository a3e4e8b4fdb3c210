"""The supervisor's end of `gateway.run.prepare`."""

import json
import os
from contextlib import suppress
from typing import IO, Any

from gateway.run import family
from gateway.run.plan import Plan


class Preparation:
    """A process that makes the stores ready, and what it has said so far.

    `waiting_for` is why the database cannot be reached yet; `demo` the demo account and `providers`
    the real ones to add, once done; `status` the exit status, once ended.
    """

    def __init__(self, plan: Plan) -> None:
        self.child = family.prepare(plan)
        self.waiting_for: str | None = None
        self.demo: dict[str, Any] | None = None
        self.providers: list[str] = []
        self.status: int | None = None
        self._unfinished = b""
        self._url_sent = False
        self._output: IO[bytes] | None = None

    def start(self) -> None:
        self.child.start()
        self._output = self.child.stdout
        os.set_blocking(self._output.fileno(), False)

    def readers(self) -> list[IO[bytes]]:
        """What to wait for: something to hear."""
        return [self._output] if self._output and self.status is None else []

    def send_simulator_url(self, url: str) -> None:
        """Once; empty for a run without the simulator."""
        if self._url_sent or self.status is not None:
            return
        self._url_sent = True
        with suppress(BrokenPipeError):
            self.child.stdin.write(f"{url}\n".encode())
            self.child.stdin.flush()

    def listen(self) -> None:
        """Take in what it has said, to the last word when it has ended."""
        if self.status is None:
            status = self.child.death()
            self._hear()
            self.status = status

    def _hear(self) -> None:
        assert self._output is not None
        with suppress(BlockingIOError):
            while heard := os.read(self._output.fileno(), 65_536):
                self._unfinished += heard
        *lines, self._unfinished = self._unfinished.split(b"\n")
        for event in map(json.loads, lines):
            self.waiting_for = event.get("waiting", self.waiting_for)
            self.demo = event.get("demo", self.demo)
            self.providers = event.get("providers", self.providers)
