"""What the parameters of a messages request mean, in a sentence each."""

from typing import Final

from routing.views.openapi.chat_parameters import MEANINGS as CHAT_MEANINGS

_AS_IN_CHAT: Final = (
    *("model", "models", "provider", "route", "preset", "plugins", "stream", "temperature"),
    *("top_p", "top_k", "tools", "stop_server_tools_when", "cache_control", "service_tier"),
    *("session_id", "trace", "user"),
)
MEANINGS: Final = {
    **{name: CHAT_MEANINGS[name] for name in _AS_IN_CHAT},
    "messages": "The conversation so far. A final assistant message is a start to be continued.",
    "max_tokens": "Most tokens the answer may have; without it as many as the endpoint gives.",
    "system": "Instructions that stand before the conversation.",
    "fallbacks": "Models to fall back to, in order; not together with `models`.",
    "stop_sequences": "Strings that end the answer.",
    "tool_choice": "Whether a tool must, may or must not be called, or which one.",
    "thinking": "Whether the model thinks before it answers, and how long.",
    "output_config": "How much effort the answer is worth, and a JSON schema it must fit.",
    "context_management": "Edits of the context; only message-style upstreams make them.",
    "metadata": "`user_id` names the end user. Providers see a hash of it.",
    "speed": "`fast` is the priority tier.",
}
