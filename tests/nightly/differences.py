"""Why an answer may differ from its recording: each reason with what it holds for."""

from collections.abc import Callable, Collection
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
    """`text` is the reason, in words that `docs/translation.md` uses as well."""

    text: str
    holds: Callable[[Difference], bool]


def _at(
    way: str, fields: Collection[str] = (), *, below: tuple[str, ...] = ()
) -> Callable[[Difference], bool]:
    """On one way: one of these fields, or a path under one of these."""
    return lambda d: d.way == way and (d.field in fields or d.field.startswith(below or ("\0",)))


# Where the answer of a failed attempt ends.
_FAILURE = ("/error", "/usage", "/choices/0/finish_reason", "/choices/0/native_finish_reason")
CHAT, MESSAGES, RESPONSES = "openai -> chat", "anthropic -> messages", "responses -> responses"


def _is_echo(difference: Difference) -> bool:
    """What a response repeats of its request."""
    name = difference.field.rpartition("/")[2]
    return difference.way == RESPONSES and name in (
        *("background", "max_output_tokens", "metadata", "previous_response_id", "store"),
        *("prompt_cache_key", "prompt_cache_retention", "safety_identifier", "truncation"),
    )


def _is_text_for_refusal(d: Difference) -> bool:
    return d.format == "messages" and (
        (d.field == "refusal" and not d.got) or (d.field == "text" and not d.recorded)
    )


def _is_usage_of_chat(d: Difference) -> bool:
    """Times, prices, and the words that providers have for counts that are told in ours."""
    ours = ("prompt_tokens", "completion_tokens", "total_tokens")
    name = d.field.rpartition("/")[2]
    return d.way == CHAT and d.field.startswith("/usage/") and name not in ours


def _is_one_letter_off(d: Difference) -> bool:
    same_length = isinstance(d.recorded, str) and len(d.recorded) == len(d.got)
    return same_length and sum(a != b for a, b in zip(d.recorded, d.got, strict=True)) == 1


REASONS: tuple[Reason, ...] = (
    Reason(
        "who served it and what it cost are the gateway's own words",
        lambda d: (
            (d.way == CHAT and d.field == "/provider")
            or "/usage/cost" in d.field
            or d.field.endswith("/usage/is_byok")
        ),
    ),
    Reason("a response repeats what this caller asked for", _is_echo),
    Reason("a chat answer's usage is the report of what was charged", _is_usage_of_chat),
    Reason(
        "reasoning that a provider leaves out of its completion is counted in",
        lambda d: d.field == "/usage/completion_tokens" and d.got > d.recorded,
    ),
    Reason(
        "the counts of a messages answer are those that were charged, compacting included",
        lambda d: (
            d.way == MESSAGES
            and (d.field == "usage" or "/usage/" in d.field)
            and ("compaction" in d.recording)
        ),
    ),
    Reason(
        "messages count what was written and what was read apart, be it the same",
        lambda d: (
            (d.format, d.field) == ("messages", "usage")
            and 0 < d.recorded.cached == d.recorded.written
        ),
    ),
    Reason("a message has no field for a refusal but its text", _is_text_for_refusal),
    Reason(
        "a provider that gives no reason for its end has finished",
        lambda d: d.field.endswith(("finish", "finish_reason")) and not d.recorded,
    ),
    Reason(
        "the provider's own word for the finish is its `finish_reason`",
        lambda d: d.way == CHAT and d.field.endswith("/native_finish_reason"),
    ),
    Reason(
        "calls beside a native `stop` are `tool_calls`",
        lambda d: d.field.endswith("/finish_reason") and d.got == "tool_calls",
    ),
    Reason(
        "`reasoning_content` is called `reasoning`",
        lambda d: d.way == CHAT and d.field.endswith("/reasoning_content"),
    ),
    Reason(
        "content in parts is one text, its thinking `reasoning`",
        lambda d: d.field.endswith("/content") and isinstance(d.recorded, list),
    ),
    Reason(
        "calls have an index in streams only",
        lambda d: d.field.endswith("/tool_calls/*/index"),
    ),
    Reason("other words for the base tier are `default`", lambda d: d.field == "/service_tier"),
    Reason(
        "the text for a custom tool is an object's `input`",
        lambda d: (
            (d.way, d.field) == ("responses -> messages", "calls")
            and [name for _, name, _ in d.recorded] == [name for _, name, _ in d.got]
            and d.got[0][2] == canonical({"input": d.recorded[0][2]})
        ),
    ),
    Reason(
        "of a provider's own words beside each chunk, the last are told",
        lambda d: (
            d.way == CHAT
            and d.stream
            and d.field.startswith(("/x_groq", "/choices/0/text", "/choices/0/delta/token_id"))
        ),
    ),
    Reason(
        "a provider's own word for a tier is kept",
        lambda d: d.field == "client" and "service_tier" in d.got,
    ),
    Reason(
        "some recordings have a status that is none",
        lambda d: d.way == RESPONSES and d.field == "client" and "'status'" in d.got,
    ),
    Reason(
        "a second choice is nobody's",
        lambda d: d.way == CHAT and d.field in ("/choices/1", "/choices/2"),
    ),
    Reason("padding hides how long the chunks of others are", lambda d: d.field == "/obfuscation"),
    Reason(
        "a failure is told as the gateway tells failures",
        lambda d: d.way == CHAT and d.stream and d.field.startswith(_FAILURE),
    ),
    Reason(
        "a failure that stands for no status is `Provider returned error`",
        lambda d: d.field == "failure" and d.got == "Provider returned error",
    ),
    Reason(
        "blocks that came with `message_start` have events of their own",
        lambda d: d.field == "message_start/message/content/#" and not d.got,
    ),
    Reason(
        "a response that has not ended is no answer",
        lambda d: d.field == "status" and "ended as queued" in str(d.got),
    ),
    Reason("one recording ends with another text than it spoke", _is_one_letter_off),
)
