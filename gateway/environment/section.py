"""The declarations of settings, which the reference is written from, and the refusal of variables
that look like settings and are none."""

import difflib
import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Concatenate, Final, ParamSpec, TypeVar

from gateway.env import SettingError

_P = ParamSpec("_P")
_V = TypeVar("_V")
# Names that begin so are settings, or mistakes.
_OWN_PREFIXES: Final = (
    *("ROUTER_", "INTERN_", "INTERNS_", "LEDGER_", "HOLD_", "CATALOGUE_POLL_"),
    *("GENERATION_", "USAGE_EXPORT_", "SANDBOX_", "API_KEY_CACHE_", "CREDITS_WEBHOOK_"),
    *("NOTIFICATION_", "EMAIL_", "CREDIT_LOW_"),
    *("OTEL_EXPORTER_OTLP_", "OTEL_TRACES_SAMPLER", "OTEL_SERVICE_"),
)
# The gateway sends spans alone; what an environment says of metrics and logs is for others.
_OF_ANOTHER_SIGNAL: Final = re.compile(r"OTEL_EXPORTER_OTLP_(METRICS|LOGS)_\w+")
# Kubernetes sets these in every container, for each service beside it.
_OF_A_SERVICE: Final = re.compile(
    r"\w+_(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT(_\d+_(TCP|UDP)\w*)?)"
)


@dataclass(frozen=True)
class Declaration:
    """One setting: its name, its meaning, what reads it and with which default and bounds."""

    name: str
    meaning: str
    reader: str
    default: Any
    bounds: dict[str, Any]


class Section:
    """Settings of one subject, in the order of their declaration. `title` and `note` head it in
    the reference."""

    every: Final[dict[str, "Section"]] = {}

    def __init__(self, title: str, note: str = "") -> None:
        self.title, self.note = title, note
        self.declarations: list[Declaration] = []
        Section.every[title] = self

    def __call__(
        self,
        name: str,
        meaning: str,
        read: Callable[Concatenate[str, _P], _V],
        /,
        *args: _P.args,
        **bounds: _P.kwargs,
    ) -> _V:
        """Declare a setting and read it. Raises `SettingError`."""
        choices = {"choices": args[1]} if len(args) > 1 else {}
        default = args[0] if args else ""
        self.declarations.append(
            Declaration(name, meaning, read.__name__, default, {**bounds, **choices})
        )
        return read(name, *args, **bounds)

    def declare(self, name: str, meaning: str, kind: str, default: str) -> None:
        """Declare a setting that is read elsewhere; `default` is its text in the reference."""
        self.declarations.append(Declaration(name, meaning, kind, default, {}))


def refuse_unknown_names() -> None:
    """Raises `SettingError` for a variable that looks like a setting and is none: a misspelt limit
    would otherwise hold nobody."""
    known = {each.name for section in Section.every.values() for each in section.declarations}
    known |= {f"{name}_FILE" for name in known}
    for name in sorted(os.environ.keys() - known):
        is_others = _OF_A_SERVICE.fullmatch(name) or _OF_ANOTHER_SIGNAL.fullmatch(name)
        if name.startswith(_OWN_PREFIXES) and not is_others:
            nearest = difflib.get_close_matches(name, known, n=1, cutoff=0)
            raise SettingError(name, f"there is no such setting; the nearest is {nearest[0]}")
