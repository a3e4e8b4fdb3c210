"""`tools` and `tool_choice`."""

from collections.abc import Iterable, Iterator
from typing import Annotated, Final, Literal, TypeAlias, Union

from pydantic import Field, StringConstraints
from typing_extensions import TypedDict

from gateway.http.jsonio import JsonObject
from routing.formats.chat.messages import CacheControl
from routing.formats.fields import ONE_KIND, REQUIRED, NonEmpty, SchemaName, Tagged
from routing.formats.server_tools import (
    SubagentParameters,
    WebSearchShorthand,
    tool_names,
    tool_schemas,
)


class FlatFunctionTool(TypedDict, total=False):
    type: Annotated[Literal["function"], REQUIRED]
    name: Annotated[SchemaName, REQUIRED]
    parameters: Annotated[JsonObject | None, REQUIRED]
    description: str | None
    strict: bool | None
    defer_loading: bool | None
    cache_control: CacheControl | None


class CustomResponsesTool(TypedDict, total=False):
    type: Annotated[Literal["custom"], REQUIRED]
    name: Annotated[NonEmpty, REQUIRED]
    description: str | None
    format: JsonObject | None


class NestedFunction(TypedDict, total=False):
    """A function of a namespace; its upstream judges the rest."""

    type: Annotated[Literal["function"], REQUIRED]
    name: Annotated[NonEmpty, REQUIRED]
    parameters: JsonObject | None


class UpstreamTool(TypedDict, total=False):
    """Run by an upstream of this format, which also judges the settings."""

    type: Annotated[
        Literal[
            "file_search",
            "computer_use_preview",
            "code_interpreter",
            "mcp",
            "image_generation",
            "local_shell",
            "shell",
            "apply_patch",
            "tool_search",
        ],
        REQUIRED,
    ]


class InheritingParameters(SubagentParameters, total=False):
    inherit_functions: bool
    inherited_function_names: list[
        Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]
    ]


_OTHER_TOOLS: Final = (
    CustomResponsesTool,
    UpstreamTool,
    *tool_schemas("responses", subagent=InheritingParameters),
    WebSearchShorthand,
)
NestedTool: TypeAlias = Annotated[
    Union[(NestedFunction, *_OTHER_TOOLS)],  # type: ignore[valid-type]  # Built from the specs.
    Tagged("type"),
]


class Namespace(TypedDict, total=False):
    """Tools under one name. Whatever may stand alone may stand in it, but for another one."""

    type: Annotated[Literal["namespace"], REQUIRED]
    name: Annotated[NonEmpty, REQUIRED]
    description: Annotated[str, REQUIRED]
    tools: Annotated[list[NestedTool], REQUIRED]


Tool: TypeAlias = Annotated[
    Union[(FlatFunctionTool, Namespace, *_OTHER_TOOLS)],  # type: ignore[valid-type]  # Built from the specs.
    Tagged("type"),
]


class NamedResponsesChoice(TypedDict, total=False):
    type: Annotated[Literal["function", "custom"], REQUIRED]
    name: Annotated[str, REQUIRED]


class McpChoice(TypedDict, total=False):
    type: Annotated[Literal["mcp"], REQUIRED]
    server_label: str
    name: str | None


_TYPED_CHOICES: Final = (
    *("web_search", "web_search_2025_08_26", "web_search_preview", "web_search_preview_2025_03_11"),
    *("file_search", "computer_use_preview", "code_interpreter", "image_generation"),
    *("local_shell", "shell", "apply_patch"),
    *sorted(tool_names("responses")),
)


class TypedChoice(TypedDict, total=False):
    type: Annotated[Literal[_TYPED_CHOICES], REQUIRED]  # type: ignore[valid-type]  # Built from the specs.


class AllowedTool(TypedDict, total=False):
    type: Annotated[NonEmpty, REQUIRED]
    name: str


class AllowedTools(TypedDict, total=False):
    type: Annotated[Literal["allowed_tools"], REQUIRED]
    mode: Annotated[Literal["auto", "required"], REQUIRED]
    tools: Annotated[list[AllowedTool], Field(min_length=1), REQUIRED]


ToolChoice = Annotated[
    Literal["none", "auto", "required"]
    | Annotated[NamedResponsesChoice | McpChoice | TypedChoice | AllowedTools, Tagged("type")],
    ONE_KIND,
]


def walk_tools(tools: Iterable[JsonObject]) -> Iterator[JsonObject]:
    """Checked tools, each namespace followed by what it holds."""
    for tool in tools:
        yield tool
        if tool["type"] == "namespace":
            yield from tool["tools"]


def tool_name(tool: JsonObject) -> str | None:
    """The name of a checked tool. Where its kind has none, the key may hold anything."""
    name = tool.get("name")
    return name if isinstance(name, str) else None
