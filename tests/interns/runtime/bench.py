"""Runtimes to try: plans, waits, turns and looks at what is left."""

import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

from gateway.outbound.exchange import AbortHandle
from interns.runtime.driver import (
    BootPlan,
    Driver,
    EndEvent,
    QuestionAnswer,
    QuestionEvent,
    RunEvent,
    RunStream,
    Runtime,
    RuntimeHealth,
    TextEvent,
    TurnOrder,
)
from routing.simulator.testing import SimulatedUpstream

HEALTHY_S = 40.0
TURN_S = 40.0


def read_pss_kib(pid: int) -> int:
    """A process's proportional share of memory, in KiB."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("Pss:"))


def family(pid: int) -> list[int]:
    """A process and all that came from it."""
    found, queue = [], [pid]
    while queue:
        one = queue.pop()
        with suppress(OSError):
            children = Path(f"/proc/{one}/task/{one}/children").read_text(encoding="ascii")
            found.append(one)
            queue += [int(child) for child in children.split()]
    return found


def wait_until(holds: Callable[[], bool], *, within_s: float = 10.0) -> bool:
    """Wait for something another process does."""
    deadline = time.monotonic() + within_s
    while not holds():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


@dataclass
class Leg:
    """What one stream told."""

    events: list[RunEvent] = field(default_factory=list)

    @property
    def text(self) -> str:
        return "".join(e.text for e in self.events if isinstance(e, TextEvent) and not e.reasoning)

    @property
    def question(self) -> QuestionEvent:
        assert isinstance(self.events[-1], QuestionEvent), self.events
        return self.events[-1]

    @property
    def end(self) -> EndEvent:
        assert isinstance(self.events[-1], EndEvent), self.events
        return self.events[-1]


def read(stream: RunStream, *, within_s: float = TURN_S) -> Leg:
    """A stream to its end."""
    leg = Leg()
    deadline = time.monotonic() + within_s
    try:
        while not (leg.events and isinstance(leg.events[-1], QuestionEvent | EndEvent)):
            assert time.monotonic() < deadline, leg.events
            leg.events += stream.read(1.0)
    finally:
        stream.close()
    return leg


@dataclass
class Bench:
    """One driver, and a model that does as it is told. `persona` is the test's own."""

    driver: Driver
    simulator: SimulatedUpstream
    persona: str
    begun: list[UUID] = field(default_factory=list)

    def plan(self, intern_id: UUID | None = None, **changes: Any) -> BootPlan:
        intern_id = intern_id or uuid4()
        self.begun.append(intern_id)
        values: dict[str, Any] = {
            "intern_id": intern_id,
            "boot_id": uuid4(),
            "name": "tester",
            "hostname": "tester.interns.localhost",
            "instructions": "Be brief.",
            "model": "sim/model",
            "api_key": "sk-simulated",
            "gateway_url": f"{self.simulator.url}/{self.persona}/v1",
        }
        return BootPlan(**values | changes)

    def boot(self, intern_id: UUID | None = None, **changes: Any) -> tuple[BootPlan, Runtime]:
        """A runtime that is well."""
        plan = self.plan(intern_id, **changes)
        runtime = self.driver.start(plan)
        health = self.await_health(plan)
        assert health.ok, (health, self.driver.log_tail(plan.intern_id))
        return plan, runtime

    def await_health(self, plan: BootPlan) -> RuntimeHealth:
        """How it is, once it is well or gone."""
        deadline = time.monotonic() + HEALTHY_S
        while True:
            health = self.driver.health(plan.intern_id, boot_id=plan.boot_id)
            if health.ok or health.exited or time.monotonic() > deadline:
                return health
            time.sleep(0.05)

    def says(self, *steps: dict[str, Any]) -> None:
        """What the model does next."""
        self.simulator.script(self.persona, *steps)

    def begin(self, plan: BootPlan, text: str, **more: Any) -> tuple[UUID, RunStream]:
        run_id = uuid4()
        said: dict[str, Any] = {"session_id": "s", "run_id": run_id, "text": text} | more
        turn = TurnOrder(**said)
        deadline = time.monotonic() + TURN_S
        abort = AbortHandle()
        return run_id, self.driver.turn(plan.intern_id, turn, deadline=deadline, abort=abort)

    def turn(self, plan: BootPlan, text: str, **more: Any) -> tuple[UUID, Leg]:
        run_id, stream = self.begin(plan, text, **more)
        return run_id, read(stream)

    def answer(self, plan: BootPlan, run_id: UUID, asked: QuestionEvent, content: str) -> Leg:
        reply = QuestionAnswer(run_id=run_id, tool_call_id=asked.tool_call_id, content=content)
        deadline = time.monotonic() + TURN_S
        stream = self.driver.answer(plan.intern_id, reply, deadline=deadline, abort=AbortHandle())
        return read(stream)

    def look_inside(self, *commands: str) -> str:
        """What commands print in a runtime whose system they cannot change and which knows no
        secret of its keeper's."""
        plan, _ = self.boot()
        changes = ("touch /usr/x 2>&1", "touch /run/gateway/door/x 2>&1")
        rest = ("grep CapEff /proc/self/status", "ls /run/gateway/inside")
        command = "\n".join((*commands, *changes, *rest))
        self.says(calls("run_shell", command=command), {"text": "Done."})
        self.turn(plan, "Look")
        found = next(self.results())
        assert found.count("Read-only file system") == 2, found
        assert "CapEff:\t0000000000000000" in found, found
        assert "config.json" not in found, found
        return found

    def results(self) -> Iterator[str]:
        """What tools told the model in the last call."""
        body = self.simulator.requests(self.persona)[-1]["body"]
        for message in body["messages"]:
            if message["role"] == "tool":
                yield str(message["content"])

    def clear(self) -> None:
        for intern_id in self.begun:
            self.driver.destroy(intern_id)


def calls(name: str, **arguments: Any) -> dict[str, Any]:
    """A step in which the model calls a tool."""
    return {"tool_calls": [{"name": name, "arguments": arguments}]}
