"""How the catalogue endpoints are described in the OpenAPI document."""

from collections.abc import Callable
from typing import Any, Final, TypeVar

from drf_spectacular.utils import OpenApiParameter, OpenApiResponse, extend_schema

from gateway.openapi.components import OPTIONAL_KEY, Component
from gateway.openapi.errors import error_responses
from routing.catalogue import schemas
from routing.catalogue.listing import SORTS
from routing.catalogue.query import INDEXES, LIMIT_MAX
from routing.entities.vocabulary import CATEGORIES

F = TypeVar("F", bound=Callable[..., object])


def _parameter(name: str, description: str = "", **schema: Any) -> OpenApiParameter:
    return OpenApiParameter(name, {"type": "string", **schema}, description=description)


def _numbers(*names: str, description: str, kind: str = "number") -> list[OpenApiParameter]:
    return [_parameter(name, description, type=kind, minimum=0) for name in names]


_OUTPUT_MODALITIES: Final = _parameter(
    "output_modalities", "Comma list, or `all`; `text` when absent."
)
_FILTERS: Final = [
    _parameter("offset", "Without offset and limit everything is returned.", type="integer"),
    _parameter("limit", "500 when only offset is given.", type="integer", maximum=LIMIT_MAX),
    _parameter("category", enum=list(CATEGORIES)),
    _parameter("supported_parameters", "Comma list; all of them must be supported."),
    _OUTPUT_MODALITIES,
    _parameter("input_modalities", "Comma list; one of them is enough."),
    _parameter("q", "Text in name or id."),
    _parameter("context", "Least context length, tokens.", type="integer", minimum=1),
    *_numbers("min_price", "max_price", description="Prompt price, USD per million tokens."),
    *_numbers(
        *("min_output_price", "max_output_price"),
        description="Completion price, USD per million tokens.",
    ),
    _parameter("arch", "Comma list of families or tokenizers."),
    _parameter("model_authors", "Comma list."),
    _parameter("providers", "Comma list of slugs or names."),
    _parameter("distillable", enum=["true", "false"]),
    _parameter("zdr", enum=["true"]),
    _parameter("region", enum=["eu", "us"]),
    *_numbers("min_age_days", "max_age_days", description="Days since created.", kind="integer"),
    *_numbers(
        *("min_tool_success_rate", "max_tool_success_rate"),
        description="0 to 1, of the last minutes; models of which nothing is known are left out.",
    ),
    *_numbers(
        *(f"{side}_{index}_index" for index in INDEXES for side in ("min", "max")),
        description="Benchmarks are not kept here, so no model passes.",
    ),
    _parameter(
        "sort",
        "`newest` when absent. Models without the figure come last; without a key the figures of "
        "speed are not known.",
        enum=list(SORTS),
    ),
    _parameter("use_rss", "Feeds are not offered: a true value is refused."),
]
_MODEL_NAME: Final = [
    OpenApiParameter("author", str, OpenApiParameter.PATH, description="As in `author/slug`."),
    OpenApiParameter(
        "slug",
        str,
        OpenApiParameter.PATH,
        description="With a variant (`:free`) or suffix (`:nitro`), if any; aliases and "
        "`~author/family-latest` resolve to their model.",
    ),
]


def _describe(
    operation_id: str,
    summary: str,
    description: str,
    answer: Component,
    *statuses: int,
    auth: Any = OPTIONAL_KEY,
    **more: Any,
) -> Callable[[F], F]:
    described: Callable[[F], F] = extend_schema(
        operation_id=operation_id,
        summary=summary,
        description=description,
        tags=["Models"],
        # Most are open to everyone, but a credential that is sent must be good.
        auth=auth,
        responses={
            200: OpenApiResponse(answer, description=description),
            **error_responses(*statuses, 401, 403, 500, 503),
        },
        **more,
    )
    return described


describe_model_list = _describe(
    "listModels",
    "List models",
    "Models that can be called. Filters are combined with AND, comma lists with OR.",
    schemas.MODEL_PAGE,
    400,
    parameters=_FILTERS,
)
describe_user_models = _describe(
    "listUserModels",
    "List models for the caller",
    "Models that the caller's account may use, with the endpoints that its provider lists leave.",
    schemas.MODEL_PAGE,
    400,
    auth=None,
    parameters=_FILTERS,
)
describe_model_count = _describe(
    "countModels",
    "Count models",
    "How many models have one of the output modalities.",
    schemas.COUNT,
    400,
    parameters=[_OUTPUT_MODALITIES],
)
describe_model = _describe(
    "getModel",
    "Get a model",
    "One model, by id, alias or family.",
    schemas.MODEL_ANSWER,
    404,
    parameters=_MODEL_NAME,
)
describe_named_model = _describe(
    "getNamedModel",
    "Get a model as OpenAI's clients read it",
    "The same model in `data`, with `id`, `object`, `created` and `owned_by` beside it.",
    schemas.NAMED_MODEL,
    404,
    parameters=_MODEL_NAME,
)
describe_model_endpoints = _describe(
    "listModelEndpoints",
    "List the endpoints of a model",
    "Which providers serve the model, at which price, and how they have done lately. Without a "
    "key the statistics are null.",
    schemas.MODEL_ENDPOINTS,
    404,
    parameters=_MODEL_NAME,
)
describe_zdr_endpoints = _describe(
    "listZeroDataRetentionEndpoints",
    "List zero-data-retention endpoints",
    "Every endpoint that keeps nothing of what it is sent. Without a key the statistics are null.",
    schemas.ENDPOINT_LIST,
)
describe_providers = _describe(
    "listProviders",
    "List providers",
    "Who serves the models, and under which terms.",
    schemas.PROVIDER_LIST,
)
