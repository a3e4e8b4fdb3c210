"""How /responses is described in the OpenAPI document."""

from typing import Final

from gateway.http.jsonio import JsonObject
from gateway.openapi.components import (
    FLAG,
    TEXT,
    USD,
    WHOLE,
    Component,
    add_description,
    array,
    nullable,
    obj,
    words,
)
from gateway.openapi.errors import ERROR_TYPES
from routing.formats.responses.schema import ResponsesBody
from routing.views.openapi.chat import CHAT_MEANINGS, ROUTER_METADATA
from routing.views.openapi.inference import describe_inference, request_component

_CHAT_FIELDS: Final = (
    *("model", "models", "provider", "route", "preset", "plugins", "stream", "temperature"),
    *("top_p", "top_k", "min_p", "top_a", "frequency_penalty", "presence_penalty"),
    *("repetition_penalty", "logit_bias", "seed", "stop", "tools", "tool_choice"),
    *("parallel_tool_calls", "max_tool_calls", "stop_server_tools_when", "modalities"),
    *("image_config", "cache_control", "prompt_cache_key", "prompt_cache_options"),
    *("service_tier", "debug", "metadata", "session_id", "trace", "user"),
)
RESPONSES_MEANINGS: Final = {
    **{name: CHAT_MEANINGS[name] for name in _CHAT_FIELDS},
    "input": "The conversation so far: a text, or items in their order.",
    "instructions": "Instructions that stand before the conversation.",
    "max_output_tokens": "Most tokens the answer may have.",
    "top_logprobs": "How many likely alternatives to return at each place.",
    "text": "Text, JSON, or JSON that fits a schema, and how long the answer should be.",
    "reasoning": "How much the model thinks, and whether that is summarised.",
    "include": "What else to return, such as `reasoning.encrypted_content`.",
    "previous_response_id": "Only null: nothing is stored, the whole conversation is sent.",
    "conversation": "Only null: nothing is stored, the whole conversation is sent.",
    "store": "Only false.",
    "background": "Only false or null.",
    "prompt": "Only null: stored prompts are not offered.",
    "truncation": "`auto` lets a conversation that is too long be shortened.",
    "safety_identifier": "The end user. Providers see a hash of it.",
}


_FREE: Final = {"type": "object", "additionalProperties": True}
_MAYBE_TEXT: Final = nullable(TEXT)
_MAYBE_WHOLE: Final = nullable(WHOLE)
_MAYBE_FREE: Final = nullable(_FREE)
_MAYBE_NUMBER: Final = nullable({"type": "number"})
_ANY: Final[JsonObject] = {}
_ITEM: Final = Component(
    "OutputItem",
    obj(
        {
            "id": TEXT,
            "type": TEXT,
            "status": TEXT,
            "role": words("assistant"),
            "content": array(_FREE),
            "summary": array(_FREE),
            "encrypted_content": _MAYBE_TEXT,
            "call_id": TEXT,
            "name": TEXT,
            "arguments": add_description(TEXT, "JSON, as the model wrote it."),
        },
        optional=(
            *("id", "status", "role", "content", "summary", "encrypted_content", "call_id"),
            *("name", "arguments"),
        ),
        description="`message`, `reasoning`, `function_call`, or an item that only upstreams of "
        "this format make, as they made it.",
        additionalProperties=True,
    ),
)
_COSTS: Final = obj(
    {
        "upstream_inference_cost": nullable(USD),
        "upstream_inference_input_cost": USD,
        "upstream_inference_output_cost": USD,
    }
)
_USAGE: Final = Component(
    "ResponseUsage",
    obj(
        {
            "input_tokens": WHOLE,
            "input_tokens_details": obj(
                {"cached_tokens": WHOLE, "cache_write_tokens": WHOLE},
                optional=("cache_write_tokens",),
                additionalProperties=True,
            ),
            "output_tokens": WHOLE,
            "output_tokens_details": obj({"reasoning_tokens": WHOLE}, additionalProperties=True),
            "total_tokens": WHOLE,
            "cost": add_description(USD, "USD charged to the account, exactly."),
            "cost_details": _COSTS,
            "is_byok": FLAG,
        },
        optional=("cost", "cost_details", "is_byok"),
        additionalProperties=True,
    ),
)
_ALWAYS: Final[JsonObject] = {
    "id": TEXT,
    "object": words("response"),
    "created_at": add_description(WHOLE, "Unix seconds."),
    "completed_at": _MAYBE_WHOLE,
    "status": words("completed", "incomplete", "in_progress", "failed", "cancelled", "queued"),
    "model": add_description(TEXT, "The model that served, never an alias."),
    "output": array(_ITEM),
    "error": nullable(obj({"code": TEXT, "message": TEXT}, additionalProperties=True)),
    "incomplete_details": nullable(obj({"reason": TEXT}, additionalProperties=True)),
    "instructions": _ANY,
    "metadata": _MAYBE_FREE,
    "tools": array(_FREE),
    "tool_choice": _ANY,
    "parallel_tool_calls": nullable(FLAG),
    "temperature": _MAYBE_NUMBER,
    "top_p": _MAYBE_NUMBER,
    "presence_penalty": _MAYBE_NUMBER,
    "frequency_penalty": _MAYBE_NUMBER,
}
_SOMETIMES: Final[JsonObject] = {
    "output_text": add_description(TEXT, "All text of the answer."),
    "usage": nullable(_USAGE),
    "error_type": words(*ERROR_TYPES),
    "router_metadata": ROUTER_METADATA,
}
RESPONSE: Final = Component(
    "Response",
    obj({**_ALWAYS, **_SOMETIMES}, optional=tuple(_SOMETIMES), additionalProperties=True),
)
RESPONSE_EVENT: Final = Component(
    "ResponseEvent",
    obj(
        {
            "type": TEXT,
            "sequence_number": WHOLE,
            "response": RESPONSE,
            "output_index": WHOLE,
            "content_index": WHOLE,
            "item_id": TEXT,
            "item": _ITEM,
            "part": _FREE,
            "delta": TEXT,
        },
        optional=(
            *("response", "output_index", "content_index", "item_id", "item", "part"),
            "delta",
        ),
        description="The JSON of one `data:` line; `event:` repeats its `type`.",
        additionalProperties=True,
    ),
)


_STREAM: Final = (
    "With `stream: true` server-sent events, numbered from 0 by `sequence_number`, from "
    "`response.created` to `response.completed` (or `response.incomplete`), then `data: [DONE]`. "
    "A failure after the first content is a last event `response.failed`."
)
describe_responses = describe_inference(
    "Responses",
    "createResponse",
    "Answer a conversation, for responses clients",
    "As chat completions, in the responses format. Nothing is stored: each request brings the "
    "whole conversation.",
    body=request_component("ResponsesRequest", ResponsesBody, RESPONSES_MEANINGS),
    example={"model": "simulated/small", "input": "Say hello."},
    answer=RESPONSE,
    event=RESPONSE_EVENT,
    stream=_STREAM,
)
