"""The chat answer and its chunks as the OpenAPI document tells them (inference reference 2, 3)."""

from typing import Any, Final

from gateway.openapi.components import (
    FLAG,
    TEXT,
    USD,
    WHOLE,
    Component,
    array,
    described,
    nullable,
    obj,
    words,
)
from gateway.openapi.errors import ERROR_OBJECT

_FREE: Final = {"type": "object", "additionalProperties": True}
_NUMBER: Final = {"type": "number"}
_MAYBE_TEXT: Final = nullable(TEXT)
_MAYBE_WHOLE: Final = nullable(WHOLE)
_FINISH: Final = words(
    "stop", "length", "tool_calls", "content_filter", "error", "function_call", None
)


def _some(properties: dict[str, Any], **more: Any) -> dict[str, Any]:
    """An object none of whose properties is sure to be there."""
    return obj(properties, optional=tuple(properties), **more)


_TOP_LOGPROB: Final = {
    "token": TEXT,
    "logprob": {"type": "number"},
    "bytes": nullable(array(WHOLE)),
}
_TOKENS: Final = nullable(
    array(
        Component("TokenLogprob", obj({**_TOP_LOGPROB, "top_logprobs": array(obj(_TOP_LOGPROB))}))
    )
)
_LOGPROBS: Final = nullable(Component("Logprobs", _some({"content": _TOKENS, "refusal": _TOKENS})))
_TOOL_CALL: Final = Component(
    "AnsweredToolCall",
    obj(
        {
            "id": TEXT,
            "type": words("function"),
            "function": obj(
                {"name": TEXT, "arguments": described(TEXT, "JSON, as the model wrote it.")}
            ),
        }
    ),
)
_FUNCTION_CALL: Final = described(
    _some({"name": TEXT, "arguments": TEXT}), "For requests with `functions`."
)
_MEDIA: Final = {
    "reasoning_details": array(_FREE),
    "images": array(obj({"type": words("image_url"), "image_url": obj({"url": TEXT})})),
    "annotations": array(_FREE),
}
_AUDIO: Final = _some(
    {"id": TEXT, "data": described(TEXT, "Base64."), "transcript": TEXT, "expires_at": WHOLE}
)
_MESSAGE: Final = Component(
    "ChatMessage",
    obj(
        {
            "role": words("assistant"),
            "content": _MAYBE_TEXT,
            "refusal": _MAYBE_TEXT,
            "reasoning": _MAYBE_TEXT,
            "tool_calls": array(_TOOL_CALL),
            "function_call": _FUNCTION_CALL,
            "audio": _AUDIO,
            **_MEDIA,
        },
        optional=("tool_calls", "function_call", "audio", *_MEDIA),
    ),
)
_CHOICE: Final = Component(
    "ChatChoice",
    obj(
        {
            "index": WHOLE,
            "message": _MESSAGE,
            "finish_reason": _FINISH,
            "native_finish_reason": _MAYBE_TEXT,
            "logprobs": _LOGPROBS,
            "error": ERROR_OBJECT,
        },
        optional=("error",),
    ),
)
COST_DETAILS: Final = Component(
    "CostDetails",
    obj(
        {
            "upstream_inference_cost": nullable(
                described(USD, "List price in USD where the caller's own provider key paid.")
            ),
            "upstream_inference_prompt_cost": USD,
            "upstream_inference_completions_cost": USD,
        }
    ),
)
USAGE: Final = Component(
    "Usage",
    obj(
        {
            "prompt_tokens": WHOLE,
            "completion_tokens": WHOLE,
            "total_tokens": WHOLE,
            "prompt_tokens_details": _some(
                dict.fromkeys(
                    ("cached_tokens", "cache_write_tokens", "audio_tokens", "video_tokens"), WHOLE
                )
            ),
            "completion_tokens_details": _some(
                dict.fromkeys(
                    (
                        *("reasoning_tokens", "audio_tokens", "image_tokens"),
                        *("accepted_prediction_tokens", "rejected_prediction_tokens"),
                    ),
                    _MAYBE_WHOLE,
                )
            ),
            "cost": described(USD, "USD charged to the account, exactly."),
            "cost_details": COST_DETAILS,
            "is_byok": FLAG,
            "server_tool_use_details": _some(
                dict.fromkeys(
                    ("tool_calls_requested", "tool_calls_executed", "web_search_requests"),
                    _MAYBE_WHOLE,
                )
            ),
        },
        optional=("server_tool_use_details",),
    ),
)
_STAGE: Final = obj(
    {
        "type": TEXT,
        "name": TEXT,
        "summary": TEXT,
        "data": _FREE,
        "guardrail_id": TEXT,
        "guardrail_scope": TEXT,
        "cost_usd": nullable(_NUMBER),
    },
    optional=("summary", "data", "guardrail_id", "guardrail_scope", "cost_usd"),
)
ROUTER_METADATA: Final = Component(
    "RouterMetadata",
    _some(
        {
            "requested": TEXT,
            "strategy": TEXT,
            "region": TEXT,
            "summary": TEXT,
            "attempt": WHOLE,
            "is_byok": FLAG,
            "generation_time": described(WHOLE, "Milliseconds."),
            "endpoints": obj(
                {
                    "total": WHOLE,
                    "available": array(obj({"provider": TEXT, "model": TEXT, "selected": FLAG})),
                }
            ),
            "attempts": array(obj({"provider": TEXT, "model": TEXT, "status": WHOLE})),
            "params": _some(
                {
                    "version_group": described(TEXT, "The family whose newest model was taken."),
                    "throughput_floor": described(_NUMBER, "Tokens per second that were wished."),
                }
            ),
            "pipeline": described(
                array(_STAGE), "Stages that changed, answered or blocked something."
            ),
        },
        description="What was considered, tried and chosen; only on opt-in.",
    ),
)
_COMMON: Final = {
    "id": described(TEXT, "The generation id, as in X-Generation-Id."),
    "created": described(WHOLE, "Unix seconds."),
    "model": described(TEXT, "The model that served, never an alias."),
    "provider": described(TEXT, "Display name of the provider that served."),
}
_AT_THE_END: Final = {
    "service_tier": _MAYBE_TEXT,
    "usage": USAGE,
    "router_metadata": ROUTER_METADATA,
}
CHAT_COMPLETION: Final = Component(
    "ChatCompletion",
    obj(
        {
            **_COMMON,
            "object": words("chat.completion"),
            "choices": array(_CHOICE),
            "system_fingerprint": _MAYBE_TEXT,
            **_AT_THE_END,
        },
        optional=("router_metadata",),
    ),
)
_TOOL_CALL_DELTA: Final = Component(
    "ToolCallDelta",
    obj(
        {
            "index": WHOLE,
            "id": TEXT,
            "type": words("function"),
            "function": _some(
                {"name": TEXT, "arguments": described(TEXT, "A fragment to append.")}
            ),
        },
        optional=("id", "type", "function"),
        description="The first delta of a call names it; later ones carry argument fragments.",
    ),
)
_DELTA: Final = Component(
    "ChatDelta",
    _some(
        {
            "role": words("assistant"),
            "content": _MAYBE_TEXT,
            "refusal": _MAYBE_TEXT,
            "reasoning": _MAYBE_TEXT,
            "tool_calls": array(_TOOL_CALL_DELTA),
            "function_call": _FUNCTION_CALL,
            "audio": _AUDIO,
            **_MEDIA,
        }
    ),
)
_CHUNK_CHOICE: Final = Component(
    "ChatChunkChoice",
    obj(
        {
            "index": WHOLE,
            "delta": _DELTA,
            "finish_reason": _FINISH,
            "native_finish_reason": _MAYBE_TEXT,
            "logprobs": _LOGPROBS,
        },
        optional=("logprobs",),
    ),
)
CHAT_CHUNK: Final = Component(
    "ChatCompletionChunk",
    obj(
        {
            **_COMMON,
            "object": words("chat.completion.chunk"),
            "choices": array(_CHUNK_CHOICE),
            "system_fingerprint": _MAYBE_TEXT,
            **_AT_THE_END,
            "error": ERROR_OBJECT,
            "debug": obj({"echo_upstream_body": _FREE}),
        },
        optional=("system_fingerprint", *_AT_THE_END, "error", "debug"),
        description="The JSON of one `data:` line.",
    ),
)
