"""What the parameters of a responses request mean, in a sentence each."""

from typing import Final

from routing.views.openapi.chat_parameters import MEANINGS as CHAT_MEANINGS

_AS_IN_CHAT: Final = (
    *("model", "models", "provider", "route", "preset", "plugins", "stream", "temperature"),
    *("top_p", "top_k", "min_p", "top_a", "frequency_penalty", "presence_penalty"),
    *("repetition_penalty", "logit_bias", "seed", "stop", "tools", "tool_choice"),
    *("parallel_tool_calls", "max_tool_calls", "stop_server_tools_when", "modalities"),
    *("image_config", "cache_control", "prompt_cache_key", "prompt_cache_options"),
    *("service_tier", "debug", "metadata", "session_id", "trace", "user"),
)
MEANINGS: Final = {
    **{name: CHAT_MEANINGS[name] for name in _AS_IN_CHAT},
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
