"""`tools` and `tool_choice`."""

from typing import Annotated, Final, Literal, TypeAlias, Union

from pydantic import AfterValidator, Discriminator, Tag
from typing_extensions import TypedDict

from gateway.http.jsonio import JsonObject
from gateway.http.validation import HIDDEN, describe_options
from routing.formats.chat.messages import CacheControl
from routing.formats.fields import REQUIRED, Count, NonEmpty, Tagged
from routing.formats.server_tools import (
    SERVER_PREFIX,
    SHORTHANDS,
    UserLocation,
    tool_schemas,
)

CUSTOM: Final = "custom"
SEARCH_PREFIX: Final = "web_search_"
BM25_PREFIX: Final = "tool_search_tool_bm25"


class InputSchema(TypedDict, total=False):
    type: str
    properties: JsonObject | None
    required: list[str] | None


class CustomMessagesTool(TypedDict, total=False):
    type: Literal["custom"] | None
    name: Annotated[NonEmpty, REQUIRED]
    input_schema: Annotated[InputSchema, REQUIRED]
    description: str
    strict: bool | None
    cache_control: CacheControl | None
    defer_loading: bool


class _ProviderSearch(TypedDict, total=False):
    """Web search that the provider runs."""

    type: Annotated[str, REQUIRED]
    name: Annotated[Literal["web_search"], REQUIRED]
    max_uses: Count | None
    allowed_domains: list[str] | None
    blocked_domains: list[str] | None
    user_location: UserLocation | None
    cache_control: CacheControl | None


def _refuse_both_domain_lists(tool: _ProviderSearch) -> _ProviderSearch:
    if tool.get("allowed_domains") and tool.get("blocked_domains"):
        raise ValueError("Invalid input: allowed_domains and blocked_domains exclude each other")
    return tool


ProviderSearch = Annotated[_ProviderSearch, AfterValidator(_refuse_both_domain_lists)]


class ProviderAdvisor(TypedDict, total=False):
    type: Annotated[str, REQUIRED]
    name: Annotated[Literal["advisor"], REQUIRED]
    model: Annotated[str, REQUIRED]
    cache_control: CacheControl | None


class ProviderTool(TypedDict, total=False):
    """A tool that a message-style provider knows and the gateway need not."""

    type: Annotated[str, REQUIRED]
    name: str
    cache_control: CacheControl | None


ServerTool: TypeAlias = Annotated[  # type: ignore[valid-type]  # Built from the specs of server tools.
    Union[tool_schemas("messages")],  # noqa: UP007 - Of a list.
    Tagged("type"),
]


def is_search(kind: str) -> bool:
    """Whether it is a web search that the provider runs, by a dated name or a shorthand."""
    return kind in SHORTHANDS or kind.startswith(SEARCH_PREFIX)


_SERVER, _SEARCH, _ADVISOR, _PROVIDER = (HIDDEN + name for name in ("s", "w", "a", "p"))
_CUSTOM: Final = HIDDEN + CUSTOM


def _pick_tool_tag(tool: object) -> str | None:
    kind = tool.get("type", CUSTOM) if type(tool) is dict else 0
    if kind is None or kind == CUSTOM:
        return _CUSTOM
    if type(kind) is not str or not kind or kind.startswith(BM25_PREFIX):
        return None
    if kind.startswith(SERVER_PREFIX):
        return _SERVER
    if is_search(kind):
        return _SEARCH
    return _ADVISOR if kind.startswith("advisor_") else _PROVIDER


_OPTIONS: Final = describe_options(
    (CUSTOM, "bash_20250124", "text_editor_20250124", "web_search_20250305", "advisor_20260301")
)
Tool = Annotated[
    Annotated[CustomMessagesTool, Tag(_CUSTOM)]
    | Annotated[ServerTool, Tag(_SERVER)]
    | Annotated[ProviderSearch, Tag(_SEARCH)]
    | Annotated[ProviderAdvisor, Tag(_ADVISOR)]
    | Annotated[ProviderTool, Tag(_PROVIDER)],
    Discriminator(
        _pick_tool_tag,
        custom_error_type="unknown_discriminator",
        custom_error_message="Unknown discriminator",
        custom_error_context={"discriminator": "type", "text": _OPTIONS},
    ),
]


class PlainChoice(TypedDict, total=False):
    type: Annotated[Literal["auto", "any"], REQUIRED]
    disable_parallel_tool_use: bool


class NoChoice(TypedDict, total=False):
    type: Annotated[Literal["none"], REQUIRED]


class NamedMessagesChoice(TypedDict, total=False):
    type: Annotated[Literal["tool"], REQUIRED]
    name: Annotated[str, REQUIRED]
    disable_parallel_tool_use: bool


ToolChoice = Annotated[PlainChoice | NoChoice | NamedMessagesChoice, Tagged("type")]
