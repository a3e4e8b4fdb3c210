"""The query string of `GET /models`: read, checked, and applied to a snapshot. Pure."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any, Final
from urllib.parse import urlencode

from gateway.http.errors import SchemaInvalid
from gateway.http.validation import Issue
from routing.catalogue.entries import ModelEntry, Snapshot
from routing.catalogue.public import published, top
from routing.catalogue.vocabulary import (
    CATEGORIES,
    INPUT_MODALITIES,
    OUTPUT_MODALITIES,
    PARAMETERS,
)

LIMIT_DEFAULT: Final = 500
LIMIT_MAX: Final = 1000
_DAY_S: Final = 86_400
_MILLION: Final = Decimal(1_000_000)
_FALSE: Final = frozenset({"", "0", "false", "no", "off"})
_REGIONS: Final = {"eu": "europe", "us": "us"}

Test = Callable[[ModelEntry], bool]
Order = Callable[[ModelEntry], Any]


@dataclass(frozen=True, slots=True)
class Page:
    """One page of models: `total_count` counts all that match, `next` is a path or None."""

    models: list[ModelEntry]
    total_count: int
    next: str | None


def page(snapshot: Snapshot, query: Mapping[str, str], *, path: str, now_s: float) -> Page:
    """The models of a query. Raises `SchemaInvalid`; unknown parameters are ignored."""
    found = matching(snapshot, query, now_s=now_s)
    offset = _whole(query, "offset", 0, None)
    limit = _whole(query, "limit", 1, LIMIT_MAX)
    if offset is None and limit is None:
        return Page(found, len(found), None)
    start = offset or 0
    end = start + (limit or LIMIT_DEFAULT)
    more = {**query, "offset": str(end), "limit": str(end - start)}
    following = f"{path}?{urlencode(more)}" if end < len(found) else None
    return Page(found[start:end], len(found), following)


def matching(snapshot: Snapshot, query: Mapping[str, str], *, now_s: float) -> list[ModelEntry]:
    """The listed models that pass every filter, in the order asked for (newest by default)."""
    for name in ("use_rss", "use_rss_chat_links"):
        if query.get(name, "").lower() not in _FALSE:
            raise SchemaInvalid([Issue(name, "feeds are not available")])
    tests = [test for filter_ in _FILTERS for test in filter_(query, now_s)]
    order = _order(query)
    found = [model for model in snapshot.listing if all(test(model) for test in tests)]
    return found if order is None else sorted(found, key=order)


def count(snapshot: Snapshot, query: Mapping[str, str]) -> int:
    """How many listed models have one of the output modalities."""
    tests = _output_modalities(query, 0)
    return sum(all(test(model) for test in tests) for model in snapshot.listing)


def _refuse(name: str, value: str, expected: str) -> SchemaInvalid:
    return SchemaInvalid([Issue(name, f"expected {expected}, received {value[:64]!r}")])


def _word(query: Mapping[str, str], name: str, words: Sequence[str]) -> str | None:
    value = query.get(name) or None
    if value is not None and value not in words:
        raise _refuse(name, value, f"one of {', '.join(words)}")
    return value


def _list(query: Mapping[str, str], name: str) -> list[str]:
    return [word.strip() for word in query.get(name, "").split(",") if word.strip()]


def _words(query: Mapping[str, str], name: str, words: Sequence[str]) -> set[str]:
    given = _list(query, name)
    for word in given:
        if word not in words:
            raise _refuse(name, word, f"members of {', '.join(words)}")
    return set(given)


def _whole(query: Mapping[str, str], name: str, minimum: int, maximum: int | None) -> int | None:
    value = query.get(name, "")
    if not value:
        return None
    bounds = f"a whole number of at least {minimum}"
    bounds += f" and at most {maximum}" if maximum is not None else ""
    # Eighteen digits fit a 64-bit number; more would make int() itself the cost.
    if not (value.isascii() and value.isdigit() and len(value) <= 18):
        raise _refuse(name, value, bounds)
    number = int(value)
    if number < minimum or (maximum is not None and number > maximum):
        raise _refuse(name, value, bounds)
    return number


def _number(query: Mapping[str, str], name: str, maximum: int | None = None) -> Decimal | None:
    value = query.get(name, "")
    if not value:
        return None
    expected = "a number of at least 0" + (f" and at most {maximum}" if maximum else "")
    try:
        number = Decimal(value)
    except InvalidOperation:
        raise _refuse(name, value, expected) from None
    if not number.is_finite() or number < 0 or (maximum is not None and number > maximum):
        raise _refuse(name, value, expected)
    return number


def _categories(query: Mapping[str, str], now_s: float) -> list[Test]:
    category = _word(query, "category", CATEGORIES)
    return [lambda model: category in model.categories] if category else []


def _supported(query: Mapping[str, str], now_s: float) -> list[Test]:
    wanted = _words(query, "supported_parameters", PARAMETERS)

    def supports_all(model: ModelEntry) -> bool:
        return wanted <= {name for end in published(model) for name in end.supported_parameters}

    return [supports_all] if wanted else []


def _output_modalities(query: Mapping[str, str], now_s: float) -> list[Test]:
    wanted = _words(query, "output_modalities", ("all", *OUTPUT_MODALITIES)) or {"text"}
    return [] if "all" in wanted else [lambda model: not wanted.isdisjoint(model.output_modalities)]


def _input_modalities(query: Mapping[str, str], now_s: float) -> list[Test]:
    wanted = _words(query, "input_modalities", INPUT_MODALITIES)
    return [lambda model: not wanted.isdisjoint(model.input_modalities)] if wanted else []


def _text(query: Mapping[str, str], now_s: float) -> list[Test]:
    text = query.get("q", "").strip().casefold()
    return [lambda model: text in f"{model.name}\n{model.id}".casefold()] if text else []


def _context(query: Mapping[str, str], now_s: float) -> list[Test]:
    least = _whole(query, "context", 1, None)
    return [] if least is None else [lambda model: (model.context_length or 0) >= least]


def _prices(query: Mapping[str, str], now_s: float) -> list[Test]:
    """Bounds on the price of the endpoint that stands for the model, USD per million tokens."""
    bounds = (("prompt", ""), ("completion", "output_"))
    return [test for key, infix in bounds for test in _price_bounds(query, key, infix)]


def _price_bounds(query: Mapping[str, str], key: str, infix: str) -> list[Test]:
    least = _number(query, f"min_{infix}price")
    most = _number(query, f"max_{infix}price")
    tests: list[Test] = []
    if least is not None:
        tests.append(lambda model: _per_million(model, key) >= least)
    if most is not None:
        tests.append(lambda model: _per_million(model, key) <= most)
    return tests


def _per_million(model: ModelEntry, key: str) -> Decimal:
    best = top(model)
    assert best is not None
    price: Decimal = getattr(best.prices, key)
    return price * _MILLION


def _names(query: Mapping[str, str], now_s: float) -> list[Test]:
    tests: list[Test] = []
    if families := _folded(query, "arch"):
        tests.append(lambda model: not families.isdisjoint(_architectures(model)))
    if authors := _folded(query, "model_authors"):
        tests.append(lambda model: model.id.partition("/")[0].casefold() in authors)
    if providers := _folded(query, "providers"):
        tests.append(lambda model: not providers.isdisjoint(_providers(model)))
    return tests


def _folded(query: Mapping[str, str], name: str) -> set[str]:
    return {word.casefold() for word in _list(query, name)}


def _architectures(model: ModelEntry) -> set[str]:
    """What a caller may call the architecture: the family, its bare name, the tokenizer."""
    family = model.family or ""
    names = (family, family.partition("/")[2], model.tokenizer or "")
    return {name.casefold() for name in names if name}


def _providers(model: ModelEntry) -> set[str]:
    entries = [endpoint.provider for endpoint in published(model)]
    return {name.casefold() for entry in entries for name in (entry.slug, entry.name)}


def _policies(query: Mapping[str, str], now_s: float) -> list[Test]:
    tests: list[Test] = []
    distillable = _word(query, "distillable", ("true", "false"))
    if distillable:
        tests.append(lambda model: model.distillable == (distillable == "true"))
    if _word(query, "zdr", ("true",)):
        tests.append(lambda model: any(endpoint.zdr for endpoint in published(model)))
    region = _word(query, "region", tuple(_REGIONS))
    if region:
        wanted = _REGIONS[region]
        tests.append(lambda model: any(end.region == wanted for end in published(model)))
    return tests


def _ages(query: Mapping[str, str], now_s: float) -> list[Test]:
    least, most = (_whole(query, f"{side}_age_days", 0, None) for side in ("min", "max"))
    tests: list[Test] = []
    if least is not None:
        tests.append(lambda model: now_s - model.created >= least * _DAY_S)
    if most is not None:
        tests.append(lambda model: now_s - model.created <= most * _DAY_S)
    return tests


def _measured(query: Mapping[str, str], now_s: float) -> list[Test]:
    """Filters on figures nobody has measured here yet: with no figure a model is left out."""
    tests: list[Test] = []
    for side in ("min", "max"):
        given = [_number(query, f"{side}_tool_success_rate", maximum=1)]
        given += [_number(query, f"{side}_{index}_index") for index in _INDEXES]
        tests += [lambda model: False for value in given if value is not None]
    return tests


_INDEXES: Final = ("intelligence", "coding", "agentic")
_FILTERS: Final = (
    *(_categories, _supported, _output_modalities, _input_modalities, _text),
    *(_context, _prices, _names, _policies, _ages, _measured),
)
_ORDERS: Final[dict[str, Order | None]] = {
    "newest": None,
    "pricing-low-to-high": lambda model: _per_million(model, "prompt"),
    "pricing-high-to-low": lambda model: -_per_million(model, "prompt"),
    "context-high-to-low": lambda model: -(model.context_length or 0),
    # Nothing is measured for these, and models without the figure go last: all keep their order.
    **dict.fromkeys(
        ("most-popular", "top-weekly", "throughput-high-to-low", "latency-low-to-high")
    ),
    **dict.fromkeys(f"{index}-high-to-low" for index in _INDEXES),
    "design-arena-elo-high-to-low": None,
}


SORTS: Final = tuple(_ORDERS)


def _order(query: Mapping[str, str]) -> Order | None:
    name = _word(query, "sort", SORTS)
    return _ORDERS[name] if name else None
