"""Rate limits that somebody sets on a key, a workspace or an endpoint: their fields, and the rules
that requests are held to."""

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from hashlib import blake2b
from typing import Annotated, Any, Final, NamedTuple

from pydantic import ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from gateway.http.jsonio import JsonObject
from gateway.http.resources import Body
from gateway.limits.concurrency import Place
from gateway.limits.limits import MINUTE_S, WindowsTaken
from gateway.limits.weights import WeightField, Weights, build_weights

LIMITS_MAX: Final = 32
FIGURE_MAX: Final = 1_000_000_000
# Of keys, endpoints and credentials that were read last.
_SETS_MAX: Final = 4_096
# In a scope it stands for every end user, each with a count of their own.
EACH: Final = "*"
FIGURES: Final = ("requests_per_minute", "requests_per_day", "tokens_per_minute", "concurrent")
# With what only stands beside one of them.
FIELDS: Final = (*FIGURES, "burst")
_FIGURE_WORDS: Final = ", ".join(FIGURES)
_BURST_TEXT: Final = (
    "Invalid input: burst is at most requests_per_minute, which stands beside it, and at least a "
    "sixtieth of it"
)
# The beginning of a counter's name says what it counts.
REQUESTS, DAY, TOKENS, BURST = "rule_requests", "rule_day", "rule_tokens", "rule_burst"

TAG_PATTERN: Final = r"^[^=]+=.+$"
_Figure = Annotated[int, Field(ge=1, le=FIGURE_MAX)] | None
_Name = Annotated[str, Field(min_length=1, max_length=200)] | None


def is_fitting_burst(burst: int, requests_per_minute: int | None) -> bool:
    """Whether a burst is at most `requests_per_minute` and at least a sixtieth of it, its share of
    one second. A smaller burst would let less through than the minute."""
    return requests_per_minute is not None and (burst <= requests_per_minute <= MINUTE_S * burst)


class RateLimitScope(Body):
    """What a limit counts; what is left out counts everything."""

    model_config = ConfigDict(extra="forbid")

    model: _Name = Field(None, description="A known model, kept as its canonical slug.")
    provider: _Name = Field(None, description="A known provider's slug.")
    user: Annotated[str, Field(min_length=1, max_length=256)] | None = Field(
        None, description="An end user (`user` of requests); `*` counts each of them apart."
    )
    tag: Annotated[str, Field(pattern=TAG_PATTERN, max_length=600)] | None = Field(
        None,
        description="Requests with this tag (`team=blue`); `team=*` counts each value apart.",
    )


class EndpointRateLimit(Body):
    """How much of an endpoint all requests together may take. At least one figure is given."""

    model_config = ConfigDict(extra="forbid")

    requests_per_minute: _Figure = None
    requests_per_day: _Figure = Field(None, description="Days are UTC.")
    tokens_per_minute: _Figure = Field(
        None, description="Prompt and answer. Requests reserve the most they may use."
    )
    concurrent: _Figure = Field(None, description="Requests under way at the same time.")
    burst: _Figure = Field(
        None,
        description="Of `requests_per_minute`: at most so many in the part of a minute that they "
        "are the share of (10 of 60: in each ten seconds).",
    )
    weights: WeightField = Field(
        None,
        description="As how many requests one counts, and its tokens as how many times as many, by "
        "model or pattern (`acme/*`): the most specific one holds, others count once. It does not "
        "concern `concurrent`.",
    )

    @model_validator(mode="after")
    def _has_a_fitting_burst(self) -> "EndpointRateLimit":
        if self.burst is not None and not is_fitting_burst(self.burst, self.requests_per_minute):
            raise PydanticCustomError("burst_too_large", _BURST_TEXT)
        return self

    @model_validator(mode="after")
    def _limits_something(self) -> "EndpointRateLimit":
        if all(getattr(self, name) is None for name in FIGURES):
            raise PydanticCustomError(
                "no_figure", "Invalid input: expected one of {names}", {"names": _FIGURE_WORDS}
            )
        return self


class RateLimit(EndpointRateLimit):
    """How much may be asked for. At least one figure is given."""

    scope: RateLimitScope | None = Field(None, description="What it counts; null for everything.")


def dump_limits(limits: Iterable[EndpointRateLimit]) -> list[JsonObject] | None:
    """The limits as columns keep them: without what is null, and null for none."""
    dumped = [each.model_dump(exclude_none=True) for each in limits]
    for each in dumped:
        if not each.get("scope", True):
            del each["scope"]
    return dumped or None


def describe_limits(column: Sequence[JsonObject] | None) -> list[JsonObject] | None:
    """The limits of a column as the API shows them, every field there."""
    if column is None:
        return None
    return [RateLimit.model_validate(each).model_dump() for each in column]


class Marks(NamedTuple):
    """What a request says of who sends it: its end user and its tags."""

    user: str | None = None
    tags: Mapping[str, str] = {}


class RateRule(NamedTuple):
    """One limit of an owner (`key:12`). `model` is a canonical slug."""

    owner: str
    model: str | None
    provider: str | None
    user: str | None
    tag: str | None
    requests_per_minute: int | None
    requests_per_day: int | None
    tokens_per_minute: int | None
    concurrent: int | None
    burst: int | None = None
    weights: Weights = ()

    @property
    def names_endpoints(self) -> bool:
        """Whether it counts what some endpoints are asked, not whole requests."""
        return self.model is not None or self.provider is not None

    def counts(self, marks: Marks) -> bool:
        """Whether requests with these marks count."""
        if self.user is None and self.tag is None:
            return True
        if self.user is not None and (marks.user is None or self.user not in (EACH, marks.user)):
            return False
        if self.tag is None:
            return True
        name, _, value = self.tag.partition("=")
        given = marks.tags.get(name)
        return given is not None and value in (EACH, given)

    def name_counter(self, marks: Marks) -> str:
        """The name of its counters. End users and tags may be of any length, and nobody is to read
        them in the store."""
        of_user = of_tag = ""
        if self.user is not None:
            of_user = _digest(self.user == EACH, marks.user or "")
        if self.tag is not None:
            name, _, value = self.tag.partition("=")
            of_tag = _digest(value == EACH, f"{name}={marks.tags.get(name, '')}")
        return f"{self.owner}|{self.model or ''}|{self.provider or ''}|{of_user}|{of_tag}"


def _digest(is_each: bool, text: str) -> str:
    digest = blake2b(text.encode("utf-8", "replace"), digest_size=12).hexdigest()
    return ("*" if is_each else "=") + digest


def build_rules(owner: str, column: Sequence[JsonObject] | None) -> tuple[RateRule, ...]:
    """The rules of a column, one for each scope: its counters must not count a request twice. Of
    two figures for the same scope the smaller one holds, of two weights of a model the larger one.
    Equal rules are the same object."""
    found: dict[tuple[str | None, ...], RateRule] = {}
    for each in column or ():
        counted: Any = each.get("scope") or {}
        scope = tuple(counted.get(name) for name in ("model", "provider", "user", "tag"))
        figures: JsonObject = {name: each.get(name) for name in FIELDS}
        weights = build_weights(each.get("weights"))
        if scope in found:
            weights = build_weights(dict(weights), dict(found[scope].weights))
            for name, figure in figures.items():
                given = [part for part in (figure, getattr(found[scope], name)) if part is not None]
                figures[name] = min(given, default=None)
        found[scope] = RateRule(owner, *scope, **figures)._replace(weights=weights)
    return share_rules(tuple(found.values()))


@lru_cache(_SETS_MAX)
def share_rules(rules: tuple[RateRule, ...]) -> tuple[RateRule, ...]:
    """The object that stands for all equal rules. What was derived from a key's rules is found by
    it after the key was read again."""
    return rules


def describe_counter(name: str) -> str:
    """Whose counter it is, in words: `this key for acme/small`."""
    owner, model, provider, user, tag = name.split("|")
    words = f"this {owner.partition(':')[0]}"
    if model:
        words += f" for {model}"
    if provider:
        words += f" at {provider}"
    if user:
        words += " and end user"
    return f"{words} and tag" if tag else words


class LimitsTaken(NamedTuple):
    """What a request took of windows, and its places among those under way. `weights` are those of
    the model that was asked, by the windows' scopes."""

    windows: WindowsTaken | None
    places: list[Place]
    weights: Mapping[str, int] = {}
