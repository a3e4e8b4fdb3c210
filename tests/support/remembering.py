"""A web worker without a garbage collector, which shows what it has not let go of by itself."""

import gc
import json
import os
from pathlib import Path
from typing import Any

from gateway.server.worker import GatewayWorker

FILE = "REMEMBERED_FILE"


class RememberingWorker(GatewayWorker):
    """Several times a second it writes how often it looked, the models of the calls it has, and how
    many turns of interns."""

    looks = 0

    def init_process(self) -> None:
        gc.disable()
        super().init_process()

    def notify(self) -> None:
        super().notify()
        self.looks += 1
        file = Path(os.environ[FILE])
        half = file.with_suffix(".half")
        told = {"looks": self.looks, "calls": _calls(), "turns": _turns()}
        half.write_text(json.dumps(told), encoding="utf-8")
        half.replace(file)


def _calls() -> list[Any]:
    """By name, for a worker begins before the application is there to be imported."""
    known = [each for each in gc.get_objects() if type(each).__qualname__ == "RequestProgress"]
    return [each.context.requested_model for each in known if hasattr(each, "context")]


def _turns() -> int:
    return sum(
        type(each).__qualname__ in ("TurnStream", "AgentStream") for each in gc.get_objects()
    )
