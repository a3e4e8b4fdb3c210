"""Input items and their parts.

What only an upstream of this format understands is replayed as it came, so of such an item nothing
but its type is looked at.
"""

from typing import Annotated, Any, Final, Literal, cast

from pydantic import AfterValidator, Field, GetCoreSchemaHandler
from pydantic_core import CoreSchema, core_schema
from typing_extensions import TypedDict

from gateway.http.jsonio import JsonObject
from gateway.http.validation import HIDDEN
from routing.formats.chat.messages import CacheBreakpoint, CacheControl
from routing.formats.fields import (
    ONE_KIND,
    REQUIRED,
    Base64,
    FileLocation,
    ImageLocation,
    NonEmpty,
    Tagged,
    WebOrDataUrl,
)
from routing.formats.responses.tools import Tool


class _Part(TypedDict, total=False):
    """Any part may say that the prompt's cache ends with it."""

    prompt_cache_breakpoint: CacheBreakpoint | None
    cache_control: CacheControl | None


class InputText(_Part, total=False):
    type: Annotated[Literal["input_text"], REQUIRED]
    text: Annotated[str, REQUIRED]


class InputImage(_Part, total=False):
    type: Annotated[Literal["input_image"], REQUIRED]
    image_url: Annotated[ImageLocation, REQUIRED]
    detail: Literal["auto", "high", "low", "original"] | None


class _InputFile(_Part, total=False):
    type: Annotated[Literal["input_file"], REQUIRED]
    file_data: FileLocation | None
    file_url: FileLocation | None
    file_id: str | None
    filename: str | None


FILE_SOURCES: Final = ("file_data", "file_url", "file_id")


def _has_a_source(part: _InputFile) -> _InputFile:
    if all(part.get(source) is None for source in FILE_SOURCES):
        raise ValueError("Invalid input: expected file_data, file_url or file_id")
    return part


InputFile = Annotated[_InputFile, AfterValidator(_has_a_source)]


class InputAudioData(TypedDict, total=False):
    data: Annotated[Base64, REQUIRED]
    format: Annotated[Literal["mp3", "wav"], REQUIRED]


class InputAudioPart(_Part, total=False):
    type: Annotated[Literal["input_audio"], REQUIRED]
    input_audio: Annotated[InputAudioData, REQUIRED]


class InputVideo(_Part, total=False):
    type: Annotated[Literal["input_video"], REQUIRED]
    video_url: Annotated[WebOrDataUrl, REQUIRED]


class OutputText(_Part, total=False):
    type: Annotated[Literal["output_text"], REQUIRED]
    text: Annotated[str, REQUIRED]
    annotations: list[JsonObject] | None
    logprobs: list[Any] | None


class RefusalPart(_Part, total=False):
    type: Annotated[Literal["refusal"], REQUIRED]
    refusal: Annotated[str, REQUIRED]


Part = Annotated[
    InputText | InputImage | InputFile | InputAudioPart | InputVideo | OutputText | RefusalPart,
    Tagged("type"),
]
InputPart = Annotated[
    InputText | InputImage | InputFile | InputAudioPart | InputVideo, Tagged("type")
]
CallResult = Annotated[str | Annotated[list[InputPart], Field(min_length=1)], ONE_KIND]


class InputMessage(TypedDict, total=False):
    type: Literal["message"]
    role: Annotated[Literal["user", "system", "assistant", "developer"], REQUIRED]
    content: Annotated[str | list[Part], ONE_KIND] | None
    phase: Literal["commentary", "final_answer"] | None


class AgentState(TypedDict, total=False):
    """What an agent has said. The messages are judged when its model is asked."""

    type: Annotated[Literal["router:subagent_state"], REQUIRED]
    name: str | None
    messages: Annotated[list[JsonObject], REQUIRED]


class FunctionCall(TypedDict, total=False):
    type: Annotated[Literal["function_call"], REQUIRED]
    call_id: Annotated[str, REQUIRED]
    name: Annotated[str, REQUIRED]
    arguments: Annotated[str, REQUIRED]
    # Of a call that a subagent made.
    subagent_id: NonEmpty | None
    subagent_items: list[AgentState] | None


class FunctionCallOutput(TypedDict, total=False):
    type: Annotated[Literal["function_call_output"], REQUIRED]
    call_id: Annotated[str, REQUIRED]
    output: Annotated[CallResult, REQUIRED]


class CustomToolCall(TypedDict, total=False):
    type: Annotated[Literal["custom_tool_call"], REQUIRED]
    call_id: Annotated[str, REQUIRED]
    name: Annotated[str, REQUIRED]
    input: Annotated[str, REQUIRED]


class CustomToolCallOutput(TypedDict, total=False):
    type: Annotated[Literal["custom_tool_call_output"], REQUIRED]
    call_id: Annotated[str, REQUIRED]
    output: Annotated[CallResult, REQUIRED]


class SummaryText(TypedDict, total=False):
    type: Annotated[Literal["summary_text"], REQUIRED]
    text: Annotated[str, REQUIRED]


class ReasoningText(TypedDict, total=False):
    type: Annotated[Literal["reasoning_text"], REQUIRED]
    text: Annotated[str, REQUIRED]


class InputReasoning(TypedDict, total=False):
    type: Annotated[Literal["reasoning"], REQUIRED]
    id: str | None
    summary: list[Annotated[SummaryText, Tagged("type")]]
    content: list[Annotated[ReasoningText, Tagged("type")]] | None
    encrypted_content: str | None
    signature: str | None
    format: str | None


class ItemReference(TypedDict, total=False):
    type: Annotated[Literal["item_reference"], REQUIRED]
    id: Annotated[str, REQUIRED]


class AdditionalTools(TypedDict, total=False):
    """Tools that the model has from here on."""

    type: Annotated[Literal["additional_tools"], REQUIRED]
    tools: Annotated[list[Tool], REQUIRED]


class ReplayedItem(TypedDict, total=False):
    type: Annotated[
        Literal[
            "web_search_call",
            "file_search_call",
            "computer_call",
            "computer_call_output",
            "code_interpreter_call",
            "image_generation_call",
            "local_shell_call",
            "local_shell_call_output",
            "shell_call",
            "shell_call_output",
            "apply_patch_call",
            "apply_patch_call_output",
            "tool_search_call",
            "tool_search_output",
            "compaction",
            "context_compaction",
        ],
        REQUIRED,
    ]


class ItemType(Tagged):
    """Input items by `type`: without one an item is a message, and two families of replayed items
    are known by how their names begin."""

    families = ("mcp_", "router:")

    def __get_pydantic_core_schema__(
        self, source: object, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        schema = super().__get_pydantic_core_schema__(source, handler)
        cast("Any", schema)["choices"][HIDDEN] = core_schema.dict_schema()
        return schema

    def _pick(self, value: object) -> str | None:
        if type(value) is not dict:
            return None
        tag = value.get(self.key)
        if tag is None:
            tag = "message"
        if type(tag) is not str:
            return None
        return HIDDEN if tag.startswith(self.families) else HIDDEN + tag


InputItem = Annotated[
    InputMessage
    | FunctionCall
    | FunctionCallOutput
    | CustomToolCall
    | CustomToolCallOutput
    | InputReasoning
    | ItemReference
    | AdditionalTools
    | ReplayedItem,
    ItemType("type"),
]
Input = Annotated[str | Annotated[list[InputItem], Field(min_length=1)], ONE_KIND]
