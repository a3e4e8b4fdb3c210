"""`tools` and `tool_choice` of a chat body (inference reference 1.6 and 1.7)."""

from typing import Annotated, Any, Literal

from typing_extensions import TypedDict

from routing.formats.chat.parts import CacheControl
from routing.formats.fields import ONE_KIND, REQUIRED, SchemaName, Tagged
from routing.formats.server_tools import (
    Advisor,
    Bash,
    Datetime,
    Files,
    Fusion,
    ImageGeneration,
    SearchModels,
    Subagent,
    WebFetch,
    WebSearch,
    WebSearchShorthand,
)


class FunctionDefinition(TypedDict, total=False):
    name: Annotated[SchemaName, REQUIRED]
    description: str
    parameters: dict[str, Any]
    strict: bool | None


class FunctionTool(TypedDict, total=False):
    type: Annotated[Literal["function"], REQUIRED]
    function: Annotated[FunctionDefinition, REQUIRED]
    cache_control: CacheControl


Tool = Annotated[
    FunctionTool
    | Advisor
    | Bash
    | Datetime
    | Files
    | Fusion
    | ImageGeneration
    | SearchModels
    | Subagent
    | WebFetch
    | WebSearch
    | WebSearchShorthand,
    Tagged("type"),
]


class NamedFunction(TypedDict, total=False):
    name: Annotated[str, REQUIRED]


class FunctionChoice(TypedDict, total=False):
    type: Annotated[Literal["function"], REQUIRED]
    function: Annotated[NamedFunction, REQUIRED]


class ServerToolChoice(TypedDict, total=False):
    type: Annotated[
        Literal[
            "router:advisor",
            "router:bash",
            "router:datetime",
            "router:files",
            "router:fusion",
            "router:image_generation",
            "router:experimental__search_models",
            "router:subagent",
            "router:web_fetch",
            "router:web_search",
            "web_search",
            "web_search_preview",
            "web_search_preview_2025_03_11",
            "web_search_2025_08_26",
        ],
        REQUIRED,
    ]


NamedChoice = Annotated[FunctionChoice | ServerToolChoice, Tagged("type")]
ToolChoice = Annotated[Literal["none", "auto", "required"] | NamedChoice, ONE_KIND]
FunctionCall = Annotated[Literal["none", "auto"] | NamedFunction, ONE_KIND]
