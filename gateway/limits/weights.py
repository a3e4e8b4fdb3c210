"""Weights of models in rate limits: as how many requests one request to them counts."""

from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Annotated, Final, NamedTuple

from pydantic import Field

WEIGHT_MAX: Final = 1_000
_MODELS_MAX: Final = 32
# Models of weighted limits that were asked for last.
_FOUND_MAX: Final = 4_096
# No model's name has other characters, and of these only `*` stands for something.
_NAME_PATTERN: Final = r"^[A-Za-z0-9*][A-Za-z0-9._:/*-]*$"
WeightField = (
    Annotated[
        dict[
            Annotated[str, Field(pattern=_NAME_PATTERN, max_length=200)],
            Annotated[int, Field(ge=1, le=WEIGHT_MAX)],
        ],
        Field(min_length=1, max_length=_MODELS_MAX),
    ]
    | None
)
# Models or patterns in lower case, the most specific first.
Weights = tuple[tuple[str, int], ...]


class ModelUse(NamedTuple):
    """What is asked of a model, or was used of it."""

    model_id: str
    canonical_slug: str
    tokens: int

    def weigh(self, weights: Weights) -> int:
        """As how many requests one to this model counts."""
        return _find_weight(weights, self.model_id.lower(), self.canonical_slug.lower())


def is_pattern(name: str) -> bool:
    return "*" in name


def merge_weights(given: Iterable[tuple[str, int]]) -> dict[str, int]:
    """Each name with the largest of its weights."""
    found: dict[str, int] = {}
    for name, weight in given:
        found[name] = max(weight, found.get(name, 0))
    return found


def build_weights(*given: Mapping[str, int] | None) -> Weights:
    """The weights of limits that count the same. Names come before patterns, and of these the
    longest first."""
    pairs = [(name.lower(), each[name]) for each in given if each for name in each]
    weights = merge_weights(pairs).items()
    return tuple(sorted(weights, key=lambda each: (is_pattern(each[0]), -len(each[0]), each[0])))


@lru_cache(_FOUND_MAX)
def _find_weight(weights: Weights, *names: str) -> int:
    for pattern, weight in weights:
        if any(fnmatchcase(name, pattern) for name in names):
            return weight
    return 1


def weigh_requests(weights: Weights, uses: Iterable[ModelUse]) -> int:
    """As how many requests one counts that may be answered by any of these models."""
    return max((each.weigh(weights) for each in uses), default=1)
