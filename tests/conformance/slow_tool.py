"""A server tool for gateways of tests that name it in `ROUTER_TOOL_BACKENDS`."""

import time
from fractions import Fraction
from typing import Any, ClassVar

from routing.tools.interface import Definition, Result, ToolContext

FEE_NANO = 7_000
BACKENDS = "router:files=tests.conformance.slow_tool.Slow"


class Slow:
    """Takes half a second and a fee."""

    time_s: float | None = None
    definition: ClassVar = Definition("slow", "Takes its time.", {"type": "object"})

    def __init__(self, parameters: dict[str, Any]) -> None:
        self.parameters = parameters

    def run(self, arguments: dict[str, Any], context: ToolContext) -> Result:
        time.sleep(0.5)
        return Result("slowly", cost_nano=Fraction(FEE_NANO))
