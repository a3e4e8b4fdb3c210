"""Why an answer may differ from its recording: each reason with what it holds for."""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any, NamedTuple

from tests.nightly.wire_readers import canonical


class Difference(NamedTuple):
    """`field` is one of what is compared, or the path of a value in an answer of the same format."""

    recording: str
    kind: str
    format: str
    stream: bool
    field: str
    recorded: Any
    got: Any

    @property
    def way(self) -> str:
        return f"{self.kind} -> {self.format}"


@dataclass(frozen=True)
class Reason:
    """`text` is the reason, in words that `docs/translation.md` uses as well."""

    text: str
    holds: Callable[[Difference], bool]


def _at(
    way: str, fields: Collection[str] = (), *, below: tuple[str, ...] = ()
) -> Callable[[Difference], bool]:
    """On one way: one of these fields, or a path under one of these."""
    return lambda d: d.way == way and (d.field in fields or d.field.startswith(below or ("\0",)))


CHAT, MESSAGES, RESPONSES = "openai -> chat", "anthropic -> messages", "responses -> responses"


def _is_echo(difference: Difference) -> bool:
    """What a response repeats of its request."""
    name = difference.field.rpartition("/")[2]
    return difference.way == RESPONSES and name in (
        *("background", "max_output_tokens", "metadata", "previous_response_id", "store"),
        *("prompt_cache_key", "prompt_cache_retention", "safety_identifier", "truncation"),
    )


REASONS: tuple[Reason, ...] = (
    Reason(
        "who served it and what it cost are the gateway's own words",
        lambda d: (
            (d.way == CHAT and d.field == "/provider")
            or "/usage/cost" in d.field
            or d.field.endswith("/usage/is_byok")
        ),
    ),
    Reason("a response repeats what this caller asked for", _is_echo),
)
