"""Server tools that misbehave, for gateways of tests that name them in `ROUTER_TOOL_BACKENDS`."""

import time
from fractions import Fraction
from typing import Any, ClassVar

from routing.tools.interface import Definition, Result, ToolContext

FEE_NANO = 7_000
BACKENDS = (
    "router:web_search=tests.conformance.odd_tools.Hangs,"
    "router:web_fetch=tests.conformance.odd_tools.TooMuch,"
    "router:bash=tests.conformance.odd_tools.Raises,"
    "router:files=tests.conformance.odd_tools.Slow"
)


class _Odd:
    time_s: float | None = None
    definition: ClassVar[Definition]

    def __init__(self, parameters: dict[str, Any]) -> None:
        self.parameters = parameters


class Hangs(_Odd):
    definition = Definition("hangs", "Never answers.", {"type": "object"})

    def run(self, arguments: dict[str, Any], context: ToolContext) -> Result:
        time.sleep(3600)
        raise AssertionError


class TooMuch(_Odd):
    definition = Definition("too_much", "Says ten million characters.", {"type": "object"})

    def run(self, arguments: dict[str, Any], context: ToolContext) -> Result:
        return Result("much " * 2_000_000)


class Raises(_Odd):
    definition = Definition("raises", "Has a bug.", {"type": "object"})

    def run(self, arguments: dict[str, Any], context: ToolContext) -> Result:
        raise RuntimeError("internal-detail-4711")


class Slow(_Odd):
    """Takes half a second and a fee."""

    definition = Definition("slow", "Takes its time.", {"type": "object"})

    def run(self, arguments: dict[str, Any], context: ToolContext) -> Result:
        time.sleep(0.5)
        return Result("slowly", cost_nano=Fraction(FEE_NANO))
