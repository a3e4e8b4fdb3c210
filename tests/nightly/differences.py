"""Why an answer may differ from its recording: each reason with what it holds for."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from tests.nightly.wire_readers import canonical


class Difference(NamedTuple):
    """`field` is one of what is compared, or a value's path in an answer of the same format."""

    recording: str
    kind: str
    format: str
    stream: bool
    field: str
    recorded: Any
    got: Any

    @property
    def way(self) -> str:
        return f"{self.kind} -> {self.format}"


@dataclass(frozen=True)
class Reason:
    """`text` is the reason, in the very words of `docs/explanation/translation.md`."""

    text: str
    holds: Callable[[Difference], bool]


CHAT, MESSAGES, RESPONSES = "openai -> chat", "anthropic -> messages", "responses -> responses"
_ECHOES = frozenset(
    {
        *("background", "metadata", "previous_response_id", "store", "prompt_cache_key"),
        *("safety_identifier", "truncation"),
    }
)
# Under `usage` of a chat answer.
_OF_PROVIDERS = frozenset(
    {
        *("completion_time", "prompt_time", "queue_time", "total_time", "num_cached_tokens"),
        *("prompt_cache_hit_tokens", "prompt_cache_miss_tokens"),
        *("prompt_tokens_details/text_tokens", "completion_tokens_details/text_tokens"),
        *("server_tool_use_details", "server_tool_use_details/tool_calls_executed"),
        "server_tool_use_details/tool_calls_requested",
    }
)
_ERRORS = frozenset(
    {"/error/code", "/error/type", "/error/status_code", "/error/failed_generation"}
)
# The two recordings of a provider that streams words of its own with each chunk and then fails.
_FAILING = "groq-test-tool-use-failed-error-streaming"


def _is_at(way: str, *fields: str) -> Callable[[Difference], bool]:
    return lambda d: d.way == way and d.field in fields


def _ends(way: str, *ends: str) -> Callable[[Difference], bool]:
    return lambda d: d.way == way and d.field.endswith(ends)


def _is_echo(d: Difference) -> bool:
    return d.way == RESPONSES and d.field.rpartition("/")[2] in _ECHOES


def _is_usage_of_chat(d: Difference) -> bool:
    return d.way == CHAT and d.field.removeprefix("/usage/") in _OF_PROVIDERS


def _is_cost(d: Difference) -> bool:
    usage = d.field.rpartition("/usage/")[2]
    return d.way in (CHAT, RESPONSES) and usage.startswith(("cost", "is_byok"))


def _is_text_for_refusal(d: Difference) -> bool:
    return d.format == "messages" and (
        (d.field == "refusal" and not d.got) or (d.field == "text" and not d.recorded)
    )


def _is_of_a_failure(d: Difference) -> bool:
    if d.way != CHAT or not d.stream:
        return False
    finish = d.field == "/choices/0/finish_reason" and d.got == "error"
    return finish or d.field in _ERRORS or (d.field == "/usage" and d.got is None)


def _is_custom_input(d: Difference) -> bool:
    return (
        (d.way, d.field) == ("responses -> messages", "calls")
        and [name for _, name, _ in d.recorded] == [name for _, name, _ in d.got]
        and d.got[0][2] == canonical({"input": d.recorded[0][2]})
    )


REASONS: tuple[Reason, ...] = (
    Reason(
        "Who served it and what it cost are the gateway's own words.",
        lambda d: _is_cost(d) or _is_at(CHAT, "/provider")(d),
    ),
    Reason("A response repeats what this caller asked for.", _is_echo),
    Reason(
        "A chat answer's usage is the report of what was charged, "
        "without the provider's own times, prices and names.",
        _is_usage_of_chat,
    ),
    Reason(
        "Reasoning that a provider leaves out of its completion is counted in.",
        lambda d: _is_at(CHAT, "/usage/completion_tokens")(d) and d.got > d.recorded,
    ),
    Reason(
        "The counts of a messages answer are those that were charged, compacting included.",
        lambda d: (
            d.way == MESSAGES
            and (d.field == "usage" or "/usage/" in d.field)
            and "compaction" in d.recording
        ),
    ),
    Reason(
        "Tokens that were written to a cache and read from it are counted once in messages.",
        lambda d: (
            (d.format, d.field) == ("messages", "usage")
            and 0 < d.recorded.cached == d.recorded.written
        ),
    ),
    Reason("A message has no field for a refusal but its text.", _is_text_for_refusal),
    Reason(
        "A provider that gives no reason for its end has finished.",
        lambda d: d.field == "finish" and d.recorded is None and d.got == "stop",
    ),
    Reason(
        "A provider's own word for the finish is its `finish_reason`.",
        _ends(CHAT, "/native_finish_reason"),
    ),
    Reason("`reasoning_content` is called `reasoning`.", _ends(CHAT, "/reasoning_content")),
    Reason(
        "Content in parts is one text, its thinking `reasoning`.",
        lambda d: _ends(CHAT, "/message/content")(d) and isinstance(d.recorded, list),
    ),
    Reason(
        "Other words for the base tier are `default`.",
        lambda d: _is_at(CHAT, "/service_tier")(d) and d.got == "default",
    ),
    Reason(
        "A provider's own word for another tier is kept, though a client may not know it.",
        lambda d: d.field == "client" and "service_tier" in d.got,
    ),
    Reason("The text for a custom tool is an object's `input`.", _is_custom_input),
    Reason(
        "Of what a stream says beside its deltas, its two ends are told, and none of a failure.",
        lambda d: (
            d.stream
            and (
                _is_at(CHAT, "/choices/0/text", "/choices/0/delta/token_id")(d)
                or (_is_at(CHAT, "/x_groq")(d) and _FAILING in d.recording)
            )
        ),
    ),
    Reason("A second choice is nobody's.", _is_at(CHAT, "/choices/1", "/choices/2")),
    Reason("Padding that hides how long chunks are is left out.", _is_at(CHAT, "/obfuscation")),
    Reason("A failure is told as the gateway tells failures.", _is_of_a_failure),
    Reason(
        "Blocks that came with `message_start` have events of their own.",
        lambda d: _is_at(MESSAGES, "message_start/message/content/#")(d) and not d.got,
    ),
    Reason(
        "A response that has not ended is no answer.",
        lambda d: d.field == "status" and "ended as queued" in str(d.got),
    ),
)


def _is_odd(d: Difference) -> bool:
    """Recordings that contradict themselves: one ends with another text than it spoke, the makers
    of another left its status out."""
    if d.field == "text":
        return d.recording == "vercel-openai-responses-openai-shell-container.1.chunks.txt-240b62"
    return d.way == RESPONSES and d.field == "client" and "'status'" in d.got


ODD = Reason("", _is_odd)
