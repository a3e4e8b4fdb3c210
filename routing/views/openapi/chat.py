"""How /chat/completions is described in the OpenAPI document: parameters, answers, chunks."""

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
from gateway.openapi.errors import ERROR_OBJECT
from routing.formats.chat.schema import ChatBody
from routing.views.openapi.inference import describe_inference, request_component

DEPRECATED_FIELDS: Final = frozenset(
    {
        *("route", "stream_options", "usage", "max_tokens", "include_reasoning"),
        *("functions", "function_call"),
        *("structured_outputs", "transforms"),
    }
)
CHAT_MEANINGS: Final = {
    "messages": "The conversation so far. A final assistant message is a start to be continued.",
    "model": "A model's id or alias. Without it the workspace's default model answers.",
    "models": "Models to fall back to, in order, when the first cannot answer.",
    "route": "`fallback` and `sort` set `provider.sort.partition`.",
    "provider": "Which providers may answer, and in which order they are asked.",
    "preset": "Slug of a preset.",
    "plugins": "Plugins to run.",
    "stream": "Answer in pieces as server-sent events.",
    "stream_options": "No effect: usage is always sent.",
    "usage": "No effect: usage is always sent.",
    "max_completion_tokens": "Most tokens the answer may have; wins over `max_tokens`.",
    "max_tokens": "Another name of `max_completion_tokens`.",
    "temperature": "Sampling temperature.",
    "top_p": "Nucleus sampling.",
    "top_k": "Sample among the k likeliest tokens; 0 is off.",
    "min_p": "Least probability relative to the likeliest token.",
    "top_a": "Least probability relative to the square of the likeliest token's.",
    "frequency_penalty": "Penalty by how often a token occurred.",
    "presence_penalty": "Penalty for tokens that occurred at all.",
    "repetition_penalty": "Penalty for repetition; 1 is neutral.",
    "logit_bias": "Token id to bias.",
    "logprobs": "Return log probabilities of the produced tokens.",
    "top_logprobs": "How many likely alternatives to return at each place; needs `logprobs`.",
    "seed": "Makes sampling repeatable where the model supports it.",
    "stop": "Strings that end the answer.",
    "n": "One choice per request.",
    "tools": "Functions the model may call, and server tools, which the gateway runs for it.",
    "tool_choice": "Whether a tool must, may or must not be called, or which one.",
    "functions": "Functions the model may call; the answer says `function_call`. Use `tools`.",
    "function_call": "Another name of `tool_choice`, for `functions`.",
    "parallel_tool_calls": "Whether one answer may hold several tool calls.",
    "max_tool_calls": "Most steps of server tools; 30 without.",
    "stop_server_tools_when": "Conditions that end the use of server tools; one is enough.",
    "response_format": "Text, JSON, or JSON that fits a schema.",
    "structured_outputs": "No effect.",
    "reasoning": "How much the model thinks, and whether that is returned.",
    "reasoning_effort": "Short for `reasoning.effort`.",
    "include_reasoning": "`false` is `reasoning.exclude`.",
    "verbosity": "How long the answer should be.",
    "modalities": "What the answer may consist of.",
    "audio": "Voice and format of audio output.",
    "image_config": "Settings for image output.",
    "prediction": "Text that the answer is expected to repeat for the most part.",
    "cache_control": "Cache the prompt up to its last cacheable block.",
    "prompt_cache_key": "Requests of one key go to one provider, so that its cache is warm.",
    "prompt_cache_options": "How the upstream's prompt cache is used.",
    "service_tier": "Which tier serves the request; `fast` is `priority`.",
    "debug": "Aids for debugging; honoured on streams only.",
    "metadata": "Free pairs of strings, kept by the caller's own tools.",
    "session_id": "Names the conversation; wins over the header `x-session-id`.",
    "trace": "Names for tracing tools.",
    "user": "The end user. Providers see a hash of it.",
    "transforms": "`middle-out` turns context compression on, an empty list turns it off.",
    "web_search_options": "Settings of the model's own web search.",
}


_FREE: Final = {"type": "object", "additionalProperties": True}
_NUMBER: Final = {"type": "number"}
_MAYBE_TEXT: Final = nullable(TEXT)
_MAYBE_WHOLE: Final = nullable(WHOLE)
_FINISH: Final = words(
    "stop", "length", "tool_calls", "content_filter", "error", "function_call", None
)


def _some(properties: JsonObject, **more: object) -> JsonObject:
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
                {"name": TEXT, "arguments": add_description(TEXT, "JSON, as the model wrote it.")}
            ),
        }
    ),
)
_FUNCTION_CALL: Final = add_description(
    _some({"name": TEXT, "arguments": TEXT}), "For requests with `functions`."
)
_MEDIA: Final = {
    "reasoning_details": array(_FREE),
    "images": array(obj({"type": words("image_url"), "image_url": obj({"url": TEXT})})),
    "annotations": array(_FREE),
}
_AUDIO: Final = _some(
    {"id": TEXT, "data": add_description(TEXT, "Base64."), "transcript": TEXT, "expires_at": WHOLE}
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
                add_description(USD, "List price in USD where the caller's own provider key paid.")
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
            "cost": add_description(USD, "USD charged to the account, exactly."),
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
            "generation_time": add_description(WHOLE, "Milliseconds."),
            "endpoints": obj(
                {
                    "total": WHOLE,
                    "available": array(obj({"provider": TEXT, "model": TEXT, "selected": FLAG})),
                }
            ),
            "attempts": array(obj({"provider": TEXT, "model": TEXT, "status": WHOLE})),
            "params": _some(
                {
                    "version_group": add_description(
                        TEXT, "The family whose newest model was taken."
                    ),
                    "throughput_floor": add_description(
                        _NUMBER, "Tokens per second that were wished."
                    ),
                }
            ),
            "pipeline": add_description(
                array(_STAGE), "Stages that changed, answered or blocked something."
            ),
        },
        description="What was considered, tried and chosen; only on opt-in.",
    ),
)
_COMMON: Final = {
    "id": add_description(TEXT, "The generation id, as in X-Generation-Id."),
    "created": add_description(WHOLE, "Unix seconds."),
    "model": add_description(TEXT, "The model that served, never an alias."),
    "provider": add_description(TEXT, "Display name of the provider that served."),
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
                {"name": TEXT, "arguments": add_description(TEXT, "A fragment to append.")}
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


_STREAM: Final = (
    "With `stream: true` server-sent events: one chunk per `data:` line, comment lines "
    "(`: ROUTER PROCESSING`) while nothing comes, then `data: [DONE]`. The chunk before that "
    "carries `usage`. A failure after the first content is a last chunk with `error`."
)
describe_chat = describe_inference(
    "Chat",
    "createChatCompletion",
    "Answer a conversation",
    "Picks an endpoint for the model, falls back to others when it fails, and charges the account "
    "what `usage.cost` says.",
    body=request_component("ChatRequest", ChatBody, CHAT_MEANINGS, deprecated=DEPRECATED_FIELDS),
    example={
        "model": "simulated/small",
        "messages": [{"role": "user", "content": "Say hello."}],
    },
    answer=CHAT_COMPLETION,
    event=CHAT_CHUNK,
    stream=_STREAM,
)
