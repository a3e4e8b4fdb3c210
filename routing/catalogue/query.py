"""The query string of `GET /models`: read, checked, and applied to a list of models. Pure."""

from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from typing import Final, NamedTuple
from urllib.parse import urlencode

from gateway.http.errors import SchemaInvalid
from gateway.http.validation import Issue
from routing.catalogue.listing import (
    NOTHING,
    SORTS,
    LearnedStats,
    list_published,
    sort_models,
    tool_success,
    usd_per_million,
)
from routing.entities.entries import ModelEntry
from routing.entities.vocabulary import (
    CATEGORIES,
    INPUT_MODALITIES,
    OUTPUT_MODALITIES,
    PARAMETERS,
)

LIMIT_DEFAULT: Final = 500
LIMIT_MAX: Final = 1000
_DAY_S: Final = 86_400
_FALSE: Final = frozenset({"", "0", "false", "no", "off"})
_REGIONS: Final = {"eu": "europe", "us": "us"}
INDEXES: Final = ("intelligence", "coding", "agentic")

Test = Callable[[ModelEntry], bool]


class ModelQuery(NamedTuple):
    """The query parameters (`words`), the time in Unix seconds, and the statistics."""

    words: Mapping[str, str]
    now_s: float
    learned: LearnedStats = NOTHING


class ModelPage(NamedTuple):
    """One page of models: `total_count` counts all that match, `next` is a path or None."""

    models: Sequence[ModelEntry]
    total_count: int
    next: str | None


def list_page(models: Sequence[ModelEntry], query: ModelQuery, *, path: str) -> ModelPage:
    """The models of a query, out of models that come newest first.

    Raises `SchemaInvalid`; unknown parameters are ignored.
    """
    offset = _parse_integer(query.words, "offset", 0, None)
    limit = _parse_integer(query.words, "limit", 1, LIMIT_MAX)
    found = filter_models(models, query)
    if offset is None and limit is None:
        return ModelPage(found, len(found), None)
    start = offset or 0
    end = start + (limit or LIMIT_DEFAULT)
    more = {**query.words, "offset": str(end), "limit": str(end - start)}
    following = f"{path}?{urlencode(more)}" if end < len(found) else None
    return ModelPage(found[start:end], len(found), following)


def filter_models(models: Sequence[ModelEntry], query: ModelQuery) -> Sequence[ModelEntry]:
    """The models that pass every filter, in the order asked for (as they come by default)."""
    for name in ("use_rss", "use_rss_chat_links"):
        if query.words.get(name, "").lower() not in _FALSE:
            raise SchemaInvalid([Issue(name, "feeds are not available")])
    sort = _parse_word(query.words, "sort", SORTS)
    tests = [test for filter_ in _FILTERS for test in filter_(query.words)]
    tests += [*_age_tests(query), *_figure_tests(query)]
    found = [model for model in models if all(test(model) for test in tests)]
    return sort_models(found, sort, query.learned)


def count_models(models: Sequence[ModelEntry], words: Mapping[str, str]) -> int:
    """How many of the models have one of the output modalities."""
    tests = _output_tests(words)
    return sum(all(test(model) for test in tests) for model in models)


def _refusal(name: str, value: str, expected: str) -> SchemaInvalid:
    return SchemaInvalid([Issue(name, f"expected {expected}, received {value[:64]!r}")])


def _parse_word(query: Mapping[str, str], name: str, words: Sequence[str]) -> str | None:
    value = query.get(name) or None
    if value is not None and value not in words:
        raise _refusal(name, value, f"one of {', '.join(words)}")
    return value


def _split_list(query: Mapping[str, str], name: str) -> list[str]:
    return [word.strip() for word in query.get(name, "").split(",") if word.strip()]


def _parse_words(query: Mapping[str, str], name: str, words: Sequence[str]) -> set[str]:
    given = _split_list(query, name)
    for word in given:
        if word not in words:
            raise _refusal(name, word, f"members of {', '.join(words)}")
    return set(given)


def _parse_integer(
    query: Mapping[str, str], name: str, minimum: int, maximum: int | None
) -> int | None:
    value = query.get(name, "")
    if not value:
        return None
    bounds = f"a whole number of at least {minimum}"
    bounds += f" and at most {maximum}" if maximum is not None else ""
    # Eighteen digits fit a 64-bit number; more would make int() itself the cost.
    if not (value.isascii() and value.isdigit() and len(value) <= 18):
        raise _refusal(name, value, bounds)
    number = int(value)
    if number < minimum or (maximum is not None and number > maximum):
        raise _refusal(name, value, bounds)
    return number


def _parse_decimal(
    query: Mapping[str, str], name: str, maximum: int | None = None
) -> Decimal | None:
    value = query.get(name, "")
    if not value:
        return None
    expected = "a number of at least 0" + (f" and at most {maximum}" if maximum else "")
    try:
        number = Decimal(value)
    except InvalidOperation:
        raise _refusal(name, value, expected) from None
    if not number.is_finite() or number < 0 or (maximum is not None and number > maximum):
        raise _refusal(name, value, expected)
    return number


def _category_tests(query: Mapping[str, str]) -> list[Test]:
    category = _parse_word(query, "category", CATEGORIES)
    return [lambda model: category in model.categories] if category else []


def _parameter_tests(query: Mapping[str, str]) -> list[Test]:
    wanted = _parse_words(query, "supported_parameters", PARAMETERS)

    def supports_all(model: ModelEntry) -> bool:
        return wanted <= {
            name for end in list_published(model) for name in end.supported_parameters
        }

    return [supports_all] if wanted else []


def _output_tests(query: Mapping[str, str]) -> list[Test]:
    wanted = _parse_words(query, "output_modalities", ("all", *OUTPUT_MODALITIES)) or {"text"}
    return [] if "all" in wanted else [lambda model: not wanted.isdisjoint(model.output_modalities)]


def _input_tests(query: Mapping[str, str]) -> list[Test]:
    wanted = _parse_words(query, "input_modalities", INPUT_MODALITIES)
    return [lambda model: not wanted.isdisjoint(model.input_modalities)] if wanted else []


def _text_tests(query: Mapping[str, str]) -> list[Test]:
    text = query.get("q", "").strip().casefold()
    return [lambda model: text in f"{model.name}\n{model.id}".casefold()] if text else []


def _context_tests(query: Mapping[str, str]) -> list[Test]:
    least = _parse_integer(query, "context", 1, None)
    return [] if least is None else [lambda model: (model.context_length or 0) >= least]


def _price_tests(query: Mapping[str, str]) -> list[Test]:
    """Bounds on the price of the endpoint that stands for the model, USD per million tokens."""
    bounds = (("prompt", ""), ("completion", "output_"))
    return [test for key, infix in bounds for test in _price_bounds(query, key, infix)]


def _price_bounds(query: Mapping[str, str], key: str, infix: str) -> list[Test]:
    least = _parse_decimal(query, f"min_{infix}price")
    most = _parse_decimal(query, f"max_{infix}price")
    tests: list[Test] = []
    if least is not None:
        tests.append(lambda model: usd_per_million(model, key) >= least)
    if most is not None:
        tests.append(lambda model: usd_per_million(model, key) <= most)
    return tests


def _name_tests(query: Mapping[str, str]) -> list[Test]:
    tests: list[Test] = []
    if families := _folded_words(query, "arch"):
        tests.append(lambda model: not families.isdisjoint(_architectures(model)))
    if authors := _folded_words(query, "model_authors"):
        tests.append(lambda model: model.id.partition("/")[0].casefold() in authors)
    if providers := _folded_words(query, "providers"):
        tests.append(lambda model: not providers.isdisjoint(_providers(model)))
    return tests


def _folded_words(query: Mapping[str, str], name: str) -> set[str]:
    return {word.casefold() for word in _split_list(query, name)}


def _architectures(model: ModelEntry) -> set[str]:
    """What a caller may call the architecture: the family, its bare name, the tokenizer."""
    family = model.family or ""
    names = (family, family.partition("/")[2], model.tokenizer or "")
    return {name.casefold() for name in names if name}


def _providers(model: ModelEntry) -> set[str]:
    return {name for endpoint in list_published(model) for name in endpoint.provider.names}


def _policy_tests(query: Mapping[str, str]) -> list[Test]:
    tests: list[Test] = []
    distillable = _parse_word(query, "distillable", ("true", "false"))
    if distillable:
        tests.append(lambda model: model.distillable == (distillable == "true"))
    if _parse_word(query, "zdr", ("true",)):
        tests.append(lambda model: any(endpoint.zdr for endpoint in list_published(model)))
    region = _parse_word(query, "region", tuple(_REGIONS))
    if region:
        wanted = _REGIONS[region]
        tests.append(lambda model: any(end.region == wanted for end in list_published(model)))
    return tests


def _age_tests(query: ModelQuery) -> list[Test]:
    least, most = (
        _parse_integer(query.words, f"{side}_age_days", 0, None) for side in ("min", "max")
    )
    tests: list[Test] = []
    if least is not None:
        tests.append(lambda model: query.now_s - model.created >= least * _DAY_S)
    if most is not None:
        tests.append(lambda model: query.now_s - model.created <= most * _DAY_S)
    return tests


def _figure_tests(query: ModelQuery) -> list[Test]:
    """Bounds on figures; a model without the figure is left out."""
    low = _parse_decimal(query.words, "min_tool_success_rate", maximum=1)
    high = _parse_decimal(query.words, "max_tool_success_rate", maximum=1)
    tests: list[Test] = []
    if low is not None or high is not None:
        least, most = float(low or 0), float(1 if high is None else high)
        tests.append(lambda model: _is_within(tool_success(model, query.learned), least, most))
    for name in [f"{side}_{index}_index" for side in ("min", "max") for index in INDEXES]:
        if _parse_decimal(query.words, name) is not None:
            # Benchmarks are not kept.
            tests.append(lambda model: False)
    return tests


def _is_within(value: float | None, least: float, most: float) -> bool:
    return value is not None and least <= value <= most


_FILTERS: Final = (
    *(_category_tests, _parameter_tests, _output_tests, _input_tests, _text_tests),
    *(_context_tests, _price_tests, _name_tests, _policy_tests),
)
