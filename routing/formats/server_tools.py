"""Server tools: their names, their settings and the formats that offer them.

Settings that a tool does not name are ignored."""

from collections.abc import Iterable, Mapping
from typing import (
    Annotated,
    Any,
    Final,
    Literal,
    NamedTuple,
    TypeAlias,
    Union,
    get_args,
    get_origin,
)
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import AfterValidator, Field, StringConstraints
from typing_extensions import TypedDict, is_typeddict

from gateway.http.jsonio import JsonObject
from routing.formats.fields import (
    ONE_KIND,
    REQUIRED,
    WHOLE,
    Count,
    Number,
    Tagged,
    Temperature,
)
from routing.formats.reasoning import ToolReasoningField

# Other names of web search, in the order in which refusals list them.
SHORTHAND_NAMES: Final = (
    "web_search",
    "web_search_preview",
    "web_search_preview_2025_03_11",
    "web_search_2025_08_26",
)
SHORTHANDS: Final = frozenset(SHORTHAND_NAMES)
SERVER_PREFIX: Final = "router:"
ADVISOR: Final = "router:advisor"
APPLY_PATCH: Final = "router:apply_patch"
BASH: Final = "router:bash"
DATETIME: Final = "router:datetime"
FILES: Final = "router:files"
FUSION: Final = "router:fusion"
IMAGE_GENERATION: Final = "router:image_generation"
SEARCH_MODELS: Final = "router:experimental__search_models"
SHELL: Final = "router:shell"
SUBAGENT: Final = "router:subagent"
TOOL_SEARCH: Final = "router:tool_search"
WEB_FETCH: Final = "router:web_fetch"
WEB_SEARCH: Final = "router:web_search"

ImageSetting = Annotated[str | Number | list[Any], ONE_KIND]
AnalysisModels = Annotated[list[str], Field(min_length=1, max_length=8)]


class ToolSpec(NamedTuple):
    """All that is known of a server tool. A new one is a module of `routing.tools` and a spec here.

    `parameters` is the pydantic type of its settings, `formats` the caller formats that offer it.
    `maker` is the dotted path of the class that runs it; `routing.tools.registry` imports it,
    because formats must not import tools. `model_settings` are the settings that name models.
    A workspace may switch the tool off if `can_disable` (`accounts.models.account.ServerTool`).
    """

    name: str
    parameters: Any
    formats: frozenset[str]
    maker: str
    model_settings: tuple[str, ...] = ()
    can_disable: bool = True

    @property
    def setting_names(self) -> frozenset[str]:
        """The names of its settings; empty if any name is allowed."""
        settings = self.parameters
        settings = get_args(settings)[0] if get_origin(settings) is Annotated else settings
        return frozenset(settings.__annotations__) if is_typeddict(settings) else frozenset()

    def schema(self, parameters: object = None) -> Any:
        """The TypedDict of the tool in a body, with these parameters instead of its own."""
        name = "".join(map(str.capitalize, self.name.removeprefix(SERVER_PREFIX).split("_")))
        fields = {
            "type": Annotated[Literal[self.name], REQUIRED],
            "parameters": parameters or self.parameters,
        }
        make: Any = TypedDict
        return make(name, fields, total=False)


_ANY_FORMAT: Final = frozenset({"chat", "messages", "responses"})


def canonical_tool(kind: str) -> str:
    """The server tool's own name; the shorthand spellings all mean web search."""
    return WEB_SEARCH if kind in SHORTHANDS else kind


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


class _WebSearchShorthand(WebSearchParameters, total=False):
    """The settings sit beside `type`, in `parameters`, or in both."""

    type: Annotated[Literal[SHORTHAND_NAMES], REQUIRED]  # type: ignore[valid-type]  # Built from the list.
    parameters: WebSearchParameters
    # The search reads what it understands of it and judges the rest.
    filters: Any


def _check_shorthand(tool: _WebSearchShorthand) -> _WebSearchShorthand:
    _refuse_both_lists({**tool, **tool.get("parameters", {})})
    return tool


WebSearchShorthand = Annotated[_WebSearchShorthand, AfterValidator(_check_shorthand)]


# Tools that a tool with a model of its own may hand to that model.
_LEAVES: Final = (
    ToolSpec(DATETIME, DatetimeParameters, _ANY_FORMAT, "routing.tools.datetime.Datetime"),
    ToolSpec(
        SEARCH_MODELS,
        SearchModelsParameters,
        _ANY_FORMAT,
        "routing.tools.search_models.SearchModels",
    ),
    ToolSpec(
        FILES,
        JsonObject,
        frozenset({"chat", "responses"}),
        "routing.tools.files.Files",
        can_disable=False,
    ),
    ToolSpec(
        IMAGE_GENERATION,
        dict[str, ImageSetting],
        _ANY_FORMAT,
        "routing.tools.image_generation.ImageGeneration",
        model_settings=("model",),
    ),
    ToolSpec(WEB_FETCH, WebFetchParameters, _ANY_FORMAT, "routing.tools.web.fetch.WebFetch"),
    ToolSpec(
        WEB_SEARCH,
        Annotated[WebSearchParameters, AfterValidator(_check_domain_lists)],
        _ANY_FORMAT,
        "routing.tools.web.search.WebSearch",
    ),
    ToolSpec(BASH, BashParameters, _ANY_FORMAT, "routing.tools.shell.Bash"),
)


def _sort_specs(specs: Iterable[ToolSpec]) -> list[ToolSpec]:
    """The specs in the order in which refusals list them."""
    return sorted(specs, key=lambda spec: spec.name.replace("experimental__", ""))


def _any_of(specs: Iterable[ToolSpec]) -> Any:
    """The type of a tool that is one of these. A shorthand comes behind the tool that it means."""
    members: list[Any] = []
    for spec in specs:
        members += [spec.schema(), *([WebSearchShorthand] if spec.name == WEB_SEARCH else [])]
    return Annotated[Union[tuple(members)], Tagged("type")]  # noqa: UP007 - Of a list.


LeafTool: TypeAlias = _any_of(_LEAVES)  # type: ignore[valid-type]  # Built from the specs.
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
    cache_control: JsonObject


_AGENTS: Final = (
    ToolSpec(
        ADVISOR,
        AdvisorParameters,
        _ANY_FORMAT,
        "routing.tools.agents.Advisor",
        model_settings=("model",),
    ),
    ToolSpec(
        FUSION,
        FusionParameters,
        _ANY_FORMAT,
        "routing.tools.fusion.Fusion",
        model_settings=("model", "analysis_models"),
    ),
)
NestedSubagentTool: TypeAlias = _any_of(  # type: ignore[valid-type]  # Built from the specs.
    _sort_specs((*_LEAVES, *_AGENTS))
)


# Settings of a subagent that only responses have.
INHERITING: Final = ("inherit_functions", "inherited_function_names")
# Settings of a subagent that no caller gives. They are functions of the request that it may call,
# and what agents that wait for such functions have said so far (`id`, chat-shaped `messages`).
FUNCTIONS: Final = "router_functions"
WAITING: Final = "router_waiting"


class SubagentParameters(_AgentParameters, total=False):
    name: ToolAgentName
    instructions: str
    max_tool_calls: Annotated[int, Field(ge=1, le=25), WHOLE]
    tools: list[NestedSubagentTool]


_RESPONSES: Final = frozenset({"responses"})
_NOT_CHAT: Final = _ANY_FORMAT - {"chat"}
TOOLS: Final = {
    spec.name: spec
    for spec in _sort_specs(
        (
            *_LEAVES,
            *_AGENTS,
            ToolSpec(
                SUBAGENT,
                SubagentParameters,
                _ANY_FORMAT,
                "routing.tools.agents.Subagent",
                model_settings=("model",),
            ),
            ToolSpec(APPLY_PATCH, JsonObject, _RESPONSES, "routing.tools.files.ApplyPatch"),
            ToolSpec(SHELL, JsonObject, _NOT_CHAT, "routing.tools.shell.Shell"),
            ToolSpec(TOOL_SEARCH, JsonObject, _NOT_CHAT, "routing.tools.tool_search.ToolSearch"),
        )
    )
}


def tool_names(format: str) -> tuple[str, ...]:
    """The server tools that a caller format offers."""
    return tuple(name for name, spec in TOOLS.items() if format in spec.formats)


def tool_schemas(format: str, **parameters: object) -> tuple[Any, ...]:
    """The TypedDicts of the server tools that a caller format offers; `subagent=...` gives that
    tool other parameters in this format."""
    return tuple(
        TOOLS[name].schema(parameters.get(name.removeprefix(SERVER_PREFIX)))
        for name in tool_names(format)
    )


def list_named_models(tool: str, settings: Mapping[str, Any]) -> list[str]:
    """The models that a server tool of that name is to ask by its settings."""
    spec = TOOLS.get(tool)
    models: list[str] = []
    for name in spec.model_settings if spec is not None else ():
        value = settings.get(name)
        values = value if isinstance(value, list) else [value]
        models += [each for each in values if isinstance(each, str)]
    return models
