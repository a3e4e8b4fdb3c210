"""Server tools: what each takes, the names they go by, and the conditions that end their loop.

Keys a tool does not name are ignored, as everywhere inside tools."""

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import AfterValidator, Field, StringConstraints
from typing_extensions import TypedDict

from routing.formats.fields import (
    ONE_KIND,
    REQUIRED,
    WHOLE,
    Amount,
    Count,
    Integer,
    NonEmpty,
    Number,
    Tagged,
    Temperature,
)
from routing.formats.reasoning import ToolReasoningField

SHORTHANDS: Final = frozenset(
    {
        "web_search",
        "web_search_preview",
        "web_search_preview_2025_03_11",
        "web_search_2025_08_26",
    }
)
SERVER_PREFIX: Final = "router:"
WEB_SEARCH: Final = "router:web_search"
WEB_FETCH: Final = "router:web_fetch"
ADVISOR: Final = "router:advisor"
TOOL_SEARCH: Final = "router:tool_search"
SUBAGENT: Final = "router:subagent"
FUSION: Final = "router:fusion"
IMAGE_GENERATION: Final = "router:image_generation"

ImageSetting = Annotated[str | Number | list[Any], ONE_KIND]
AnalysisModels = Annotated[list[str], Field(min_length=1, max_length=8)]


def canonical_tool(kind: str) -> str:
    """The server tool's own name; the shorthand spellings all mean web search."""
    return WEB_SEARCH if kind in SHORTHANDS else kind


# Settings that name models which the tool asks.
_MODEL_SETTINGS: Final[Mapping[str, tuple[str, ...]]] = {
    ADVISOR: ("model",),
    FUSION: ("model", "analysis_models"),
    IMAGE_GENERATION: ("model",),
    SUBAGENT: ("model",),
}


def list_named_models(tool: str, settings: Mapping[str, Any]) -> list[str]:
    """The models that a server tool of that name is to ask by its settings."""
    found: list[str] = []
    for name in _MODEL_SETTINGS.get(tool, ()):
        value = settings.get(name)
        values = value if isinstance(value, list) else [value]
        found += [each for each in values if isinstance(each, str)]
    return found


def _check_zone(name: str) -> str:
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        # ValueError: not a relative path. OSError: a directory of zones, or a name too long.
        raise ValueError("Invalid time zone: expected an IANA name") from None
    return name


class DatetimeParameters(TypedDict, total=False):
    timezone: Annotated[str, AfterValidator(_check_zone)]


class SearchModelsParameters(TypedDict, total=False):
    max_results: Annotated[int, Field(ge=1, le=20), WHOLE]


class UserLocation(TypedDict, total=False):
    type: Literal["approximate"]
    city: str | None
    region: str | None
    country: str | None
    timezone: str | None


SearchEngine = Literal["auto", "native", "exa", "parallel", "firecrawl", "perplexity"]
SearchMode = Literal[
    "instant",
    "fast",
    "auto",
    "deep-lite",
    "deep",
    "deep-reasoning",
    "turbo",
    "basic",
    "advanced",
]
ContextSize = Literal["low", "medium", "high"]


class WebSearchParameters(TypedDict, total=False):
    engine: SearchEngine
    mode: SearchMode
    max_results: Annotated[int, Field(ge=1, le=25), WHOLE]
    max_total_results: Count
    max_uses: Count
    max_characters: Annotated[int, Field(ge=1, le=100_000), WHOLE]
    search_context_size: ContextSize
    user_location: UserLocation | None
    allowed_domains: list[str]
    excluded_domains: list[str]


def _refuse_both_lists(settings: Mapping[str, Any]) -> None:
    """`filters` is where OpenAI keeps those that are allowed."""
    filters = settings.get("filters")
    filtered = isinstance(filters, dict) and filters.get("allowed_domains")
    if (settings.get("allowed_domains") or filtered) and settings.get("excluded_domains"):
        raise ValueError("Invalid input: allowed_domains and excluded_domains exclude each other")


def _check_domain_lists(settings: WebSearchParameters) -> WebSearchParameters:
    _refuse_both_lists(settings)
    return settings


class WebFetchParameters(TypedDict, total=False):
    engine: Literal["auto", "native", "router", "exa", "parallel", "firecrawl"]
    max_uses: Count
    max_content_tokens: Count
    allowed_domains: list[str]
    blocked_domains: list[str]


class ContainerAuto(TypedDict, total=False):
    type: Annotated[Literal["container_auto"], REQUIRED]


class ContainerReference(TypedDict, total=False):
    type: Annotated[Literal["container_reference"], REQUIRED]
    container_id: Annotated[str, Field(min_length=1, max_length=20), REQUIRED]


class BashParameters(TypedDict, total=False):
    engine: Literal["auto", "native", "router"]
    environment: Annotated[ContainerAuto | ContainerReference, Tagged("type")]
    sleep_after_seconds: Annotated[int, Field(ge=0, le=2_592_000), WHOLE]


class DatetimeTool(TypedDict, total=False):
    type: Annotated[Literal["router:datetime"], REQUIRED]
    parameters: DatetimeParameters


class SearchModelsTool(TypedDict, total=False):
    type: Annotated[Literal["router:experimental__search_models"], REQUIRED]
    parameters: SearchModelsParameters


class FilesTool(TypedDict, total=False):
    type: Annotated[Literal["router:files"], REQUIRED]
    parameters: dict[str, Any]


class ImageGenerationTool(TypedDict, total=False):
    type: Annotated[Literal["router:image_generation"], REQUIRED]
    parameters: dict[str, ImageSetting]


class WebFetchTool(TypedDict, total=False):
    type: Annotated[Literal["router:web_fetch"], REQUIRED]
    parameters: WebFetchParameters


class WebSearchTool(TypedDict, total=False):
    type: Annotated[Literal["router:web_search"], REQUIRED]
    parameters: Annotated[WebSearchParameters, AfterValidator(_check_domain_lists)]


class _WebSearchShorthand(WebSearchParameters, total=False):
    """The settings sit beside `type`, in `parameters`, or in both."""

    type: Annotated[
        Literal[
            "web_search",
            "web_search_preview",
            "web_search_preview_2025_03_11",
            "web_search_2025_08_26",
        ],
        REQUIRED,
    ]
    parameters: WebSearchParameters
    # Read where it is understood; whoever runs the search judges the rest.
    filters: Any


def _check_shorthand(tool: _WebSearchShorthand) -> _WebSearchShorthand:
    _refuse_both_lists({**tool, **tool.get("parameters", {})})
    return tool


WebSearchShorthand = Annotated[_WebSearchShorthand, AfterValidator(_check_shorthand)]


class BashTool(TypedDict, total=False):
    type: Annotated[Literal["router:bash"], REQUIRED]
    parameters: BashParameters


# What a tool that runs a model of its own may hand to that model.
LeafTool = Annotated[
    DatetimeTool
    | SearchModelsTool
    | FilesTool
    | ImageGenerationTool
    | WebFetchTool
    | WebSearchTool
    | WebSearchShorthand
    | BashTool,
    Tagged("type"),
]
LeafTools = Annotated[list[LeafTool], Field(max_length=8)]

ToolAgentName = Annotated[
    str,
    StringConstraints(
        strip_whitespace=True, min_length=1, max_length=64, pattern=r"^[a-zA-Z0-9 _-]+$"
    ),
]


class _AgentParameters(TypedDict, total=False):
    """What the three tools that run a model of their own have in common."""

    model: str
    max_completion_tokens: Count
    reasoning: ToolReasoningField
    temperature: Temperature


class AdvisorParameters(_AgentParameters, total=False):
    name: ToolAgentName
    instructions: str
    forward_transcript: bool
    stream: bool
    max_tool_calls: Annotated[int, Field(ge=0, le=25), WHOLE]


class FusionParameters(_AgentParameters, total=False):
    analysis_models: AnalysisModels
    max_tool_calls: Annotated[int, Field(ge=1, le=16), WHOLE]
    tools: LeafTools
    cache_control: dict[str, Any]


class AdvisorTool(TypedDict, total=False):
    type: Annotated[Literal["router:advisor"], REQUIRED]
    parameters: AdvisorParameters


class FusionTool(TypedDict, total=False):
    type: Annotated[Literal["router:fusion"], REQUIRED]
    parameters: FusionParameters


NestedSubagentTool = Annotated[
    AdvisorTool
    | BashTool
    | DatetimeTool
    | FilesTool
    | FusionTool
    | ImageGenerationTool
    | SearchModelsTool
    | WebFetchTool
    | WebSearchTool
    | WebSearchShorthand,
    Tagged("type"),
]


# Settings of a subagent that only responses have.
INHERITING: Final = ("inherit_functions", "inherited_function_names")
# Settings of a subagent that no caller gives: functions of the request that it may call, and what
# agents that wait for such functions have said so far (`id`, chat-shaped `messages`).
FUNCTIONS: Final = "router_functions"
WAITING: Final = "router_waiting"


class SubagentParameters(_AgentParameters, total=False):
    name: ToolAgentName
    instructions: str
    max_tool_calls: Annotated[int, Field(ge=1, le=25), WHOLE]
    tools: list[NestedSubagentTool]


class SubagentTool(TypedDict, total=False):
    type: Annotated[Literal["router:subagent"], REQUIRED]
    parameters: SubagentParameters


class StepCountIs(TypedDict, total=False):
    type: Annotated[Literal["step_count_is"], REQUIRED]
    step_count: Annotated[Count, REQUIRED]


class HasToolCall(TypedDict, total=False):
    type: Annotated[Literal["has_tool_call"], REQUIRED]
    tool_name: Annotated[NonEmpty, REQUIRED]


class MaxTokensUsed(TypedDict, total=False):
    type: Annotated[Literal["max_tokens_used"], REQUIRED]
    max_tokens: Annotated[Integer, REQUIRED]


class MaxCost(TypedDict, total=False):
    type: Annotated[Literal["max_cost"], REQUIRED]
    max_cost_in_dollars: Annotated[Amount, REQUIRED]


class FinishReasonIs(TypedDict, total=False):
    type: Annotated[Literal["finish_reason_is"], REQUIRED]
    reason: Annotated[NonEmpty, REQUIRED]


StopCondition = Annotated[
    StepCountIs | HasToolCall | MaxTokensUsed | MaxCost | FinishReasonIs, Tagged("type")
]
StopConditions = Annotated[list[StopCondition], Field(min_length=1)]
