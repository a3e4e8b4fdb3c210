"""Guards outside of the gateway's own filters that a guardrail names: as columns keep them, and as
rules."""

from collections.abc import Iterable, Mapping
from typing import Final, Literal, NamedTuple

from gateway.http.jsonio import JsonObject

GuardKind = Literal["moderation", "decision"]
Side = Literal["input", "output", "both"]
Fallback = Literal["open", "closed"]
MODERATION_MODEL: Final = "omni-moderation-latest"
QUESTION: Final = (
    "Is the text unsafe? Unsafe is what helps with violence, weapons, crime, self-harm, sexual "
    "abuse or hate, or what gives away somebody's private data."
)


class ExternalGuard(NamedTuple):
    """`moderation` asks `{base_url}/moderations` of a provider, and finds the categories that reach
    their thresholds, or those that the provider flags where there are none. `decision` asks a model
    how likely the answer to `question` is yes, and finds something from `threshold` on.

    `blocks` says what becomes of what it finds, `shadow` that it only says so. Where it does not
    answer in time, its text goes on if it `fails_open`; a guard that only flags never blocks.
    """

    kind: GuardKind
    side: Side
    blocks: bool
    shadow: bool
    timeout_s: float
    fails_open: bool
    model: str
    provider: str = ""
    thresholds: Mapping[str, float] | None = None
    threshold: float = 0.0
    question: str = ""

    def looks_at(self, side: Side) -> bool:
        return self.side in (side, "both")

    @property
    def acts(self) -> bool:
        """Whether it keeps anything back."""
        return self.blocks and not self.shadow


def read_external_guards(columns: Iterable[JsonObject] | None) -> tuple[ExternalGuard, ...]:
    return tuple(
        ExternalGuard(
            kind=each["kind"],
            side=each["on"],
            blocks=each["action"] == "block",
            shadow=each["shadow"],
            timeout_s=each["timeout_ms"] / 1000,
            fails_open=each["on_failure"] == "open",
            model=each["model"],
            provider=each.get("provider") or "",
            thresholds=each.get("thresholds"),
            threshold=each.get("threshold", 0.0),
            question=each.get("question") or QUESTION,
        )
        for each in columns or ()
    )
