"""The query string of `GET /models`: read, checked, and applied to a list of models. Pure."""

from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from typing import Annotated, Any, Final, NamedTuple, Self
from urllib.parse import urlencode

from pydantic import BeforeValidator, Field, WithJsonSchema
from pydantic_core import PydanticCustomError

from gateway.http.errors import SchemaInvalid
from gateway.http.resources import Query
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
_FALSE: Final = frozenset({"0", "false", "no", "off"})
_REGIONS: Final = {"eu": "europe", "us": "us"}
_TEXT: Final = frozenset({"text"})


def _refusal(expected: str, value: str) -> PydanticCustomError:
    text = f"expected {expected}, received {value[:64]!r}"
    return PydanticCustomError("unexpected", "{text}", {"text": text})


def _parser(parse: Callable[[str], object], **schema: object) -> BeforeValidator:
    """Annotates a parameter that is text of this schema, with what reads it."""
    return BeforeValidator(parse, json_schema_input_type=Annotated[Any, WithJsonSchema(schema)])


def _whole_number(minimum: int, maximum: int | None = None) -> BeforeValidator:
    """A whole number within these bounds."""
    expected = f"a whole number of at least {minimum}"
    expected += f" and at most {maximum}" if maximum is not None else ""

    def parse(value: str) -> int:
        # Eighteen digits fit a 64-bit number; more would make int() itself the cost.
        if not (value.isascii() and value.isdigit() and len(value) <= 18):
            raise _refusal(expected, value)
        number = int(value)
        if number < minimum or (maximum is not None and number > maximum):
            raise _refusal(expected, value)
        return number

    bounds = {"minimum": minimum} if maximum is None else {"minimum": minimum, "maximum": maximum}
    return _parser(parse, type="integer", **bounds)


def _decimal(maximum: int | None = None) -> BeforeValidator:
    """A number from 0 on."""
    expected = "a number of at least 0" + (f" and at most {maximum}" if maximum else "")

    def parse(value: str) -> Decimal:
        try:
            number = Decimal(value)
        except InvalidOperation:
            raise _refusal(expected, value) from None
        if not number.is_finite() or number < 0 or (maximum is not None and number > maximum):
            raise _refusal(expected, value)
        return number

    bounds = {"minimum": 0} if maximum is None else {"minimum": 0, "maximum": maximum}
    return _parser(parse, type="number", **bounds)


def _word(options: Sequence[str]) -> BeforeValidator:
    """One of these words."""

    def parse(value: str) -> str:
        if value not in options:
            raise _refusal(f"one of {', '.join(options)}", value)
        return value

    return _parser(parse, type="string", enum=list(options))


def _words(options: Sequence[str] | None = None) -> BeforeValidator:
    """A comma list of these words, or of any, which are folded."""

    def parse(value: str) -> frozenset[str]:
        words = [word.strip() for word in value.split(",") if word.strip()]
        if options is None:
            return frozenset(word.casefold() for word in words)
        for word in words:
            if word not in options:
                raise _refusal(f"members of {', '.join(options)}", word)
        return frozenset(words)

    return _parser(parse, type="string")


def _refuse_feed(value: str) -> str:
    if value.lower() not in _FALSE:
        raise PydanticCustomError("no_feed", "feeds are not available")
    return value


_Feed = Annotated[
    str | None,
    _parser(_refuse_feed, type="string"),
    Field(description="Feeds are not offered: a true value is refused."),
]
_PromptPrice = Annotated[
    Decimal | None, _decimal(), Field(description="Prompt price, USD per million tokens.")
]
_CompletionPrice = Annotated[
    Decimal | None, _decimal(), Field(description="Completion price, USD per million tokens.")
]
_Days = Annotated[int | None, _whole_number(0), Field(description="Days since created.")]
_Rate = Annotated[
    Decimal | None,
    _decimal(maximum=1),
    Field(
        description="0 to 1, of the last minutes; models of which nothing is known are left out."
    ),
]
_Benchmark = Annotated[
    Decimal | None,
    _decimal(),
    Field(description="Benchmarks are not kept here, so no model passes."),
]
_OutputModalities = Annotated[
    frozenset[str] | None,
    _words(("all", *OUTPUT_MODALITIES)),
    Field(description="Comma list, or `all`; `text` when absent."),
]
_AnyWords = Annotated[frozenset[str] | None, _words()]


class CountQuery(Query):
    """Which models are counted."""

    output_modalities: _OutputModalities = None


class ModelQuery(Query):
    """Which models are listed, and in which order. Parameters are checked in this order."""

    offset: Annotated[int | None, _whole_number(0)] = Field(
        None, description="Without offset and limit everything is returned."
    )
    limit: Annotated[int | None, _whole_number(1, LIMIT_MAX)] = Field(
        None, description=f"{LIMIT_DEFAULT} when only offset is given."
    )
    use_rss: _Feed = None
    use_rss_chat_links: _Feed = None
    sort: Annotated[str | None, _word(SORTS)] = Field(
        None,
        description="`newest` when absent. Models without the figure come last; without a key the "
        "figures of speed are not known.",
    )
    category: Annotated[str | None, _word(CATEGORIES)] = None
    supported_parameters: Annotated[frozenset[str] | None, _words(PARAMETERS)] = Field(
        None, description="Comma list; all of them must be supported."
    )
    output_modalities: _OutputModalities = None
    input_modalities: Annotated[frozenset[str] | None, _words(INPUT_MODALITIES)] = Field(
        None, description="Comma list; one of them is enough."
    )
    q: str | None = Field(None, description="Text in name or id.")
    context: Annotated[int | None, _whole_number(1)] = Field(
        None, description="Least context length, tokens."
    )
    min_price: _PromptPrice = None
    max_price: _PromptPrice = None
    min_output_price: _CompletionPrice = None
    max_output_price: _CompletionPrice = None
    arch: _AnyWords = Field(None, description="Comma list of families or tokenizers.")
    model_authors: _AnyWords = Field(None, description="Comma list.")
    providers: _AnyWords = Field(None, description="Comma list of slugs or names.")
    distillable: Annotated[str | None, _word(("true", "false"))] = None
    zdr: Annotated[str | None, _word(("true",))] = None
    region: Annotated[str | None, _word(tuple(_REGIONS))] = None
    min_age_days: _Days = None
    max_age_days: _Days = None
    min_tool_success_rate: _Rate = None
    max_tool_success_rate: _Rate = None
    min_intelligence_index: _Benchmark = None
    min_coding_index: _Benchmark = None
    min_agentic_index: _Benchmark = None
    max_intelligence_index: _Benchmark = None
    max_coding_index: _Benchmark = None
    max_agentic_index: _Benchmark = None

    @classmethod
    def read(cls, body: Mapping[str, Any], **context: object) -> Self:
        """The checked query. Raises `SchemaInvalid` for the first odd value."""
        try:
            return super().read(body, **context)
        except SchemaInvalid as error:
            raise SchemaInvalid([Issue(**error.metadata["issues"][0])]) from None


class Now(NamedTuple):
    """What models are compared with: the time in Unix seconds, and the statistics."""

    at_s: float
    learned: LearnedStats = NOTHING


class ModelPage(NamedTuple):
    """One page of models: `total_count` counts all that match, `next` is a path or None."""

    models: Sequence[ModelEntry]
    total_count: int
    next: str | None


def list_page(
    models: Sequence[ModelEntry], parameters: Mapping[str, str], now: Now, *, path: str
) -> ModelPage:
    """The models of a query string, out of models that come newest first.

    Raises `SchemaInvalid`; unknown parameters are ignored.
    """
    query = ModelQuery.read(parameters)
    matches = filter_models(models, query, now)
    if query.offset is None and query.limit is None:
        return ModelPage(matches, len(matches), None)
    start = query.offset or 0
    end = start + (query.limit or LIMIT_DEFAULT)
    more = {**parameters, "offset": str(end), "limit": str(end - start)}
    following = f"{path}?{urlencode(more)}" if end < len(matches) else None
    return ModelPage(matches[start:end], len(matches), following)


def filter_models(
    models: Sequence[ModelEntry], query: ModelQuery, now: Now
) -> Sequence[ModelEntry]:
    """The models that pass every filter, in the order asked for (as they come by default)."""
    values = dict(query)
    values["q"] = (query.q or "").strip().casefold()
    values["output_modalities"] = query.output_modalities or _TEXT
    tests = [
        (test, values[name])
        for name, test in _TESTS.items()
        # An empty list filters nothing.
        if values[name] is not None and values[name] not in ("", frozenset())
    ]
    matches = [model for model in models if all(test(model, value, now) for test, value in tests)]
    return sort_models(matches, query.sort, now.learned)


def count_models(models: Sequence[ModelEntry], parameters: Mapping[str, str]) -> int:
    """How many of the models have one of the output modalities. Raises `SchemaInvalid`."""
    modalities = CountQuery.read(parameters).output_modalities or _TEXT
    return sum(_has_output(model, modalities) for model in models)


def _has_output(model: ModelEntry, modalities: frozenset[str]) -> bool:
    return "all" in modalities or not modalities.isdisjoint(model.output_modalities)


def _is_architecture(model: ModelEntry, names: frozenset[str]) -> bool:
    """A caller may name the family, its bare name, or the tokenizer."""
    family = model.family or ""
    own = (family, family.partition("/")[2], model.tokenizer or "")
    return any(name and name.casefold() in names for name in own)


def _tool_share(model: ModelEntry, now: Now, default: float) -> float:
    """The share of tool calls that succeeded; the default where it is not known."""
    share = tool_success(model, now.learned)
    return default if share is None else share


# What a model must be to pass a parameter of that value.
_TESTS: Final[Mapping[str, Callable[[ModelEntry, Any, Now], bool]]] = {
    "category": lambda model, category, _: category in model.categories,
    "supported_parameters": lambda model, names, _: (
        names <= {name for each in list_published(model) for name in each.supported_parameters}
    ),
    "output_modalities": lambda model, modalities, _: _has_output(model, modalities),
    "input_modalities": lambda model, modalities, _: (
        not modalities.isdisjoint(model.input_modalities)
    ),
    "q": lambda model, text, _: text in f"{model.name}\n{model.id}".casefold(),
    "context": lambda model, tokens, _: (model.context_length or 0) >= tokens,
    # Prices are those of the endpoint that stands for the model.
    "min_price": lambda model, usd, _: usd_per_million(model, "prompt") >= usd,
    "max_price": lambda model, usd, _: usd_per_million(model, "prompt") <= usd,
    "min_output_price": lambda model, usd, _: usd_per_million(model, "completion") >= usd,
    "max_output_price": lambda model, usd, _: usd_per_million(model, "completion") <= usd,
    "arch": lambda model, names, _: _is_architecture(model, names),
    "model_authors": lambda model, names, _: model.id.partition("/")[0].casefold() in names,
    "providers": lambda model, names, _: any(
        not names.isdisjoint(each.provider.names) for each in list_published(model)
    ),
    "distillable": lambda model, word, _: model.distillable == (word == "true"),
    "zdr": lambda model, _word, _: any(endpoint.zdr for endpoint in list_published(model)),
    "region": lambda model, word, _: any(
        endpoint.region == _REGIONS[word] for endpoint in list_published(model)
    ),
    "min_age_days": lambda model, days, now: now.at_s - model.created >= days * _DAY_S,
    "max_age_days": lambda model, days, now: now.at_s - model.created <= days * _DAY_S,
    # A model whose share is not known passes neither.
    "min_tool_success_rate": lambda model, least, now: _tool_share(model, now, -1) >= float(least),
    "max_tool_success_rate": lambda model, most, now: _tool_share(model, now, 2) <= float(most),
    # Benchmarks are not kept.
    **{
        f"{side}_{index}_index": lambda model, value, now: False
        for side in ("min", "max")
        for index in ("intelligence", "coding", "agentic")
    },
}
