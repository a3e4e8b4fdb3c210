"""Scripts: what a test makes a persona answer next, and the gates that hold an answer back."""

import asyncio
from collections import defaultdict, deque
from dataclasses import dataclass, field, fields
from typing import Any

from routing.simulator.faults import FAULTS

OVERRIDES = frozenset(
    {
        "text",
        "reasoning",
        "redacted",
        "refusal",
        "tool_calls",
        "finish_reason",
        "usage",
        "logprobs",
        "model",
        "answers",
    }
)
CUTS = ("close", "reset")


class ScriptError(Exception):
    """A script that cannot be played, said in one sentence."""


@dataclass(slots=True, kw_only=True)
class Step:
    """What one request gets: a fault, a fixed answer, events, or an overridden answer."""

    delay_s: float = 0.0
    gate: str | None = None
    fault: str | None = None
    options: dict[str, Any] = field(default_factory=dict)
    status: int | None = None
    headers: dict[str, str] = field(default_factory=dict)
    json: Any = None
    body: str | None = None
    content_type: str | None = None
    events: list[str | dict[str, Any]] | None = None
    override: dict[str, Any] = field(default_factory=dict)

    @property
    def is_fixed(self) -> bool:
        """Whether the answer is a status and a body that are spelled out."""
        spelled_out = self.body is not None or self.json is not None
        return spelled_out or (self.status is not None and not self.override)

    @property
    def names_the_answer(self) -> bool:
        """Whether the step leaves no room for a fault that the model name asks for."""
        return self.fault is not None or self.events is not None or self.is_fixed


NUMBER = (int, float)
STEP_TYPES: dict[str, type | tuple[type, ...]] = {
    "delay_s": NUMBER,
    "gate": str,
    "fault": str,
    "options": dict,
    "status": int,
    "headers": dict,
    "body": str,
    "content_type": str,
    "events": list,
    "tool_calls": list,
    "answers": dict,
}
EVENT_TYPES: dict[str, type | tuple[type, ...]] = {
    "json": object,
    "text": str,
    "finish": (str, type(None)),
    "failure": str,
    "pause_s": NUMBER,
    "gate": str,
    "cut": str,
}
STEP_KEYS = frozenset(f.name for f in fields(Step)) - {"override"}
EMPTY_STEP = Step()


def read_step(given: Any) -> Step:
    """Turn one JSON step into a Step. Raises ScriptError."""
    if not isinstance(given, dict):
        raise ScriptError("a step is a JSON object")
    unknown = sorted(given.keys() - STEP_KEYS - OVERRIDES)
    if unknown:
        raise ScriptError(f"unknown step keys: {', '.join(unknown)}")
    _check_types(given, STEP_TYPES)
    if "fault" in given and given["fault"] not in FAULTS:
        raise ScriptError(f"unknown fault: {given['fault']}")
    for item in given.get("events", []):
        _check_event(item)
    override = {key: value for key, value in given.items() if key in OVERRIDES}
    return Step(override=override, **{k: v for k, v in given.items() if k in STEP_KEYS})


def _check_event(item: Any) -> None:
    if isinstance(item, str):
        return
    if not isinstance(item, dict) or len(item) != 1 or not item.keys() <= EVENT_TYPES.keys():
        raise ScriptError(f"an event is a string or an object with one of {sorted(EVENT_TYPES)}")
    _check_types(item, EVENT_TYPES)
    if item.get("cut", "close") not in CUTS:
        raise ScriptError("cut is close or reset")


def _check_types(given: dict[str, Any], types: dict[str, type | tuple[type, ...]]) -> None:
    for key, wanted in types.items():
        if key in given and not isinstance(given[key], wanted):
            raise ScriptError(f"{key} has the wrong type")


class Scripts:
    """The steps still to play, by persona. Each request takes one, in order of arrival."""

    def __init__(self) -> None:
        self._steps: dict[str, deque[Step]] = {}
        self._repeating: set[str] = set()

    def put(self, persona: str, script: Any) -> int:
        """Replace a persona's script. Returns the number of steps. Raises ScriptError."""
        if not isinstance(script, dict) or not isinstance(script.get("steps"), list):
            raise ScriptError('a script is {"steps": [...], "repeat": false}')
        steps = deque(read_step(step) for step in script["steps"])
        self.clear(persona)
        if steps:
            self._steps[persona] = steps
        if script.get("repeat"):
            self._repeating.add(persona)
        return len(steps)

    def take(self, persona: str) -> Step | None:
        """The step for the request that just came, or None for the normal behaviour."""
        steps = self._steps.get(persona)
        if steps is None:
            return None
        if len(steps) == 1 and persona in self._repeating:
            return steps[0]
        step = steps.popleft()
        if not steps:
            del self._steps[persona]
        return step

    def clear(self, persona: str | None = None) -> None:
        """Forget one persona's script, or all."""
        if persona is None:
            self._steps.clear()
            self._repeating.clear()
        else:
            self._steps.pop(persona, None)
            self._repeating.discard(persona)


class Gates:
    """Named gates. A gate stays open once opened, so it does not matter who comes first."""

    def __init__(self) -> None:
        self._open: dict[str, asyncio.Event] = defaultdict(asyncio.Event)
        self._waiting: dict[str, int] = defaultdict(int)
        self._reached: dict[str, asyncio.Event] = defaultdict(asyncio.Event)

    async def wait(self, name: str) -> None:
        self._waiting[name] += 1
        self._reached[name].set()
        try:
            await self._open[name].wait()
        finally:
            self._waiting[name] -= 1

    async def reached(self, name: str, timeout_s: float) -> None:
        """Wait until some answer has come to the gate, or time runs out."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._reached[name].wait()
        except TimeoutError:
            return

    def open(self, name: str) -> None:
        self._open[name].set()

    def clear(self) -> None:
        """Forget all gates, letting through whoever waits."""
        for event in self._open.values():
            event.set()
        self._open.clear()
        self._reached.clear()

    def shown(self, name: str) -> dict[str, Any]:
        return {
            "name": name,
            "open": name in self._open and self._open[name].is_set(),
            "reached": name in self._reached and self._reached[name].is_set(),
            "waiting": self._waiting.get(name, 0),
        }
