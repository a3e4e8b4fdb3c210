"""The words of a preset's `config`, and what each caller format calls them (management reference
4.5)."""

from collections.abc import Mapping
from typing import Final

# The cap goes by two names in chat; a request that has one of them has said how long.
CAPS: Final = ("max_tokens", "max_completion_tokens")
# How answers are cached, which no upstream is told.
CACHE: Final = ("cache_enabled", "cache_ttl_seconds")
# JSON has one kind of number; these are whole.
WHOLE: Final = frozenset(
    {*CAPS, "top_k", "top_logprobs", "seed", "max_tool_calls", "cache_ttl_seconds"}
)
_EVERYWHERE: Final = ("model", "models", "provider", "temperature", "top_p", "top_k")
_LATER: Final = ("tools", "tool_choice", "stop_server_tools_when", "plugins", "service_tier")

# What a format has under the very name that the config has.
SAME: Final[Mapping[str, tuple[str, ...]]] = {
    "chat": (
        *_EVERYWHERE,
        *("min_p", "top_a", "repetition_penalty", "seed", "logit_bias", "logprobs"),
        *("frequency_penalty", "presence_penalty", "top_logprobs", *CAPS, "stop"),
        *("response_format", "verbosity", "reasoning", *_LATER, "parallel_tool_calls"),
        *("max_tool_calls", "modalities", "image_config", "cache_control"),
        *("prompt_cache_options", *CACHE),
    ),
    "responses": (
        *_EVERYWHERE,
        *("frequency_penalty", "presence_penalty", "top_logprobs", "reasoning", *_LATER),
        *("parallel_tool_calls", "max_tool_calls", "modalities", "image_config"),
        *("cache_control", "prompt_cache_options", "truncation", *CACHE),
    ),
    "messages": (*_EVERYWHERE, "max_tokens", *_LATER, "speed", "cache_control", *CACHE),
}
# The fields beside, which are kept under another name or in parts.
OTHERS: Final[Mapping[str, tuple[str, ...]]] = {
    "chat": ("reasoning_effort", "functions", "function_call"),
    "responses": ("max_output_tokens", "text", "instructions", "previous_response_id"),
    "messages": ("fallbacks", "stop_sequences", "thinking", "output_config", "system"),
}
