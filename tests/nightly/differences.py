"""Why an answer may differ from its recording: each reason with what it holds for."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Reason:
    """`text` is the reason; `holds` tells of a difference whether it is the reason of that one."""

    text: str
    holds: Callable[[Any], bool]


REASONS: tuple[Reason, ...] = ()
