"""What the descriptions of the inference endpoints have in common."""

from collections.abc import Callable, Iterable, Mapping
from functools import cache, partial
from typing import Any, Final, TypeVar

from drf_spectacular.utils import OpenApiExample, OpenApiParameter, OpenApiResponse, extend_schema
from pydantic import TypeAdapter

from gateway.http.jsonio import JsonObject
from gateway.openapi.components import REF_TEMPLATE, Component
from gateway.openapi.errors import ERROR, error_responses
from routing.formats.chat.schema import ChatBody
from routing.formats.fields import RequestJsonSchema

F = TypeVar("F", bound=Callable[..., object])
ERROR_STATUSES: Final = (
    *(400, 401, 402, 403, 404, 408, 413, 422, 429),
    *(500, 502, 503, 524, 529),
)
_AFTER_ROUTING: Final = [200, 400, 402, 403, 404, 408, 413, 422, 429, 502, 503, 524, 529]
_DESCRIPTION: Final = "Unknown keys are ignored; null stands for absent where it is allowed."
_PREFIX: Final = REF_TEMPLATE.format(model="")
# Generators of client libraries name their classes after these. Where a class of ours is named more
# exactly than the document may be, the document keeps the name that it was published with.
_PUBLISHED_NAMES: Final = {
    "AssistantBlocksMessage": "AssistantMessage",
    "AudioContent": "InputAudio",
    "ContextCompressionPlugin": "ContextCompression",
    "CustomMessagesTool": "CustomTool",
    "CustomResponsesTool": "CustomTool",
    "ExperimentalSearchModels": "SearchModels",
    "FileParserPlugin": "FileParser",
    "FlatFunctionTool": "FunctionTool",
    "FlatSchemaFormat": "JsonSchemaFormat",
    "FunctionToolCall": "ToolCall",
    "GeneratedImage": "AnsweredImage",
    "GeneratedImageUrl": "AnsweredImageUrl",
    "InputAudioData": "AudioData",
    "InputAudioPart": "InputAudio",
    "InputMessage": "MessageItem",
    "InputReasoning": "ReasoningItem",
    "ModerationPlugin": "Moderation",
    "NamedMessagesChoice": "NamedChoice",
    "NamedResponsesChoice": "NamedChoice",
    "PlainTextFormat": "PlainFormat",
    "RedactedThinkingBlock": "RedactedThinking",
    "RefusalPart": "Refusal",
    "ResponseHealingPlugin": "ResponseHealing",
    "ResponsesReasoning": "ReasoningField",
    "SystemBlocksMessage": "SystemMessage",
    "ThinkingBlock": "Thinking",
    "ToolResultBlock": "ToolResult",
    "ToolUseBlock": "ToolUse",
    "UserBlocksMessage": "UserMessage",
}


class _Schema(RequestJsonSchema):
    """Without the titles pydantic makes of field names."""

    def field_title_should_be_set(self, schema: object) -> bool:
        return False


def request_component(
    name: str, body: object, meanings: Mapping[str, str], *, deprecated: Iterable[str] = ()
) -> Component:
    """A request by the type its bodies are checked with and the meaning of each parameter.

    What the type shares with the chat format keeps the name it has there; other definitions are
    named after the request.
    """
    return Component(
        name, later=partial(_build_request, name, body, meanings, frozenset(deprecated))
    )


def _build_request(
    name: str, body: object, meanings: Mapping[str, str], deprecated: frozenset[str]
) -> tuple[JsonObject, JsonObject]:
    schema, definitions = _build_schema(body)
    if body is not ChatBody:
        # What means the same in the chat format, with all it refers to, keeps its name.
        theirs, prefix = _chat_definitions(), name.removesuffix("Request")
        shared = {key for key, each in definitions.items() if theirs.get(key) == each}
        while odd := {key for key in shared if not _find_names(definitions[key]) <= shared}:
            shared -= odd
        names = {key: key if key in shared else prefix + key for key in definitions}
        schema, definitions = _rename_definitions(schema, definitions, names)
    properties = {key: {**field} for key, field in schema["properties"].items()}
    for field_name, field in properties.items():
        field["description"] = meanings[field_name]
        if field_name in deprecated:
            field["deprecated"] = True
    described = {**schema, "properties": properties, "title": name, "description": _DESCRIPTION}
    return described, definitions


@cache
def _chat_definitions() -> JsonObject:
    return _build_schema(ChatBody)[1]


def _build_schema(body: Any) -> tuple[JsonObject, JsonObject]:
    schema: JsonObject = TypeAdapter(body).json_schema(
        schema_generator=_Schema, ref_template=REF_TEMPLATE
    )
    definitions = schema.pop("$defs", {})
    names = {name: _PUBLISHED_NAMES.get(name, name) for name in definitions}
    for name, definition in definitions.items():
        if definition.get("title") == name:
            definition["title"] = names[name]
    assert len(set(names.values())) == len(names), "two definitions of one name"
    return _rename_definitions(schema, definitions, names)


def _rename_definitions(
    schema: object, definitions: JsonObject, names: Mapping[str, str]
) -> tuple[Any, JsonObject]:
    renamed = {names[name]: _rename_references(each, names) for name, each in definitions.items()}
    return _rename_references(schema, names), renamed


def _find_names(value: Any) -> set[str]:
    if isinstance(value, list):
        return set().union(*map(_find_names, value))
    if not isinstance(value, dict):
        return {value.removeprefix(_PREFIX)} if _is_reference(value) else set()
    return set().union(*map(_find_names, value.values()))


def _rename_references(value: Any, names: Mapping[str, str]) -> Any:
    if isinstance(value, list):
        return [_rename_references(item, names) for item in value]
    if isinstance(value, dict):
        return {key: _rename_references(item, names) for key, item in value.items()}
    return _PREFIX + names[value.removeprefix(_PREFIX)] if _is_reference(value) else value


def _is_reference(value: object) -> bool:
    return isinstance(value, str) and value.startswith(_PREFIX)


def describe_inference(
    tag: str,
    operation_id: str,
    summary: str,
    description: str,
    *,
    body: Component,
    example: JsonObject,
    answer: Component,
    event: Component,
    stream: str,
    statuses: Iterable[int] = ERROR_STATUSES,
    error_body: Component = ERROR,
    auth: Any = None,
) -> Callable[[F], F]:
    """Decorates the method of an operation that answers in one piece or as a stream of events,
    which `stream` describes. `example` is the body of a question."""
    decorate: Callable[[F], F] = extend_schema(
        operation_id=operation_id,
        summary=summary,
        description=description,
        tags=[tag],
        auth=auth,
        parameters=[*HEADERS, *CACHE_HEADERS],
        request={"application/json": body},
        examples=[OpenApiExample("A question", value=example, request_only=True)],
        responses={
            (200, "application/json"): OpenApiResponse(answer, description=stream),
            (200, "text/event-stream"): OpenApiResponse(event, description=stream),
            **error_responses(*statuses, body=error_body),
        },
    )
    return decorate


def describe_header(name: str, description: str, **more: Any) -> OpenApiParameter:
    return OpenApiParameter(name, str, OpenApiParameter.HEADER, description=description, **more)


HEADERS: Final = [
    describe_header("X-Router-Metadata", "`enabled` adds `router_metadata` to the answer."),
    describe_header("x-session-id", "Names the conversation, at most 256 characters."),
    describe_header("HTTP-Referer", "Address of the calling app."),
    describe_header("X-Router-Title", "Display name of the calling app."),
    describe_header("X-Router-Categories", "Comma list of at most two app categories."),
    describe_header(
        "anthropic-beta", "Comma list of beta names; only message-style upstreams are told them."
    ),
    describe_header(
        "X-Generation-Id",
        "Id of the generation, on every answer that an upstream was asked for.",
        response=_AFTER_ROUTING,
    ),
    describe_header("Retry-After", "Seconds to wait.", response=[402, 429, 503, 529]),
]
CACHE_HEADERS: Final = [
    describe_header("X-Router-Cache", "`true` lets the answer come from the response cache."),
    describe_header(
        "X-Router-Cache-TTL", "Seconds that the answer is kept, 1 to 86400; 300 by default."
    ),
    describe_header("X-Router-Cache-Clear", "`true` makes the answer anew and keeps that one."),
    describe_header(
        "X-Router-Share",
        "`false` keeps the request from waiting for the same one under way, `true` lets it.",
    ),
    describe_header(
        "X-Router-Cache-Status",
        "`HIT` or `MISS`, where the cache was asked for; `SHARED` with the same request under way.",
        response=[200],
    ),
    describe_header("X-Router-Cache-Age", "How many seconds ago a hit was made.", response=[200]),
    describe_header(
        "X-Router-Semantic-Cache",
        "`HIT`, `MISS` or `FAILED`, where the plugin `semantic-cache` looked for an answer.",
        response=[200],
    ),
    describe_header(
        "X-Router-Semantic-Similarity",
        "How near the nearest text is that was answered before: 1 at most.",
        response=[200],
    ),
    describe_header(
        "X-Router-Cache-Source-Id",
        "The generation that made a hit or a shared answer.",
        response=[200],
    ),
]
