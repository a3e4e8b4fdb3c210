"""CPU of translating a conversation: `python -m tests.load.translating --rounds 5 --seconds 1`.

Parsing is orjson and the check of the caller's format; translating is what else is done until the
bytes for an upstream of another format are there. Prints a line of JSON: a list of `Translating`.
"""

import gc
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from tests.load.conversations import conversation
from tests.load.printing import print_measured
from tests.load.selecting import cpu_us

if TYPE_CHECKING:
    from routing.entities.exchange import Prompt, Terms
    from routing.formats.chat.request import ChatRequest

# Caller format and wire kind.
TRANSLATIONS: Final = (
    ("messages", "openai"),
    ("chat", "anthropic"),
    ("responses", "openai"),
    ("chat", "responses"),
)
_BATCH: Final = 4
_MODEL: Final = "bench"


@dataclass(frozen=True)
class Translating:
    """Microseconds of CPU: `parsing_us` by caller format; `whole_us`, parsing and translating
    together, by `caller-wire`. `body_bytes` by caller format."""

    body_bytes: dict[str, int]
    parsing_us: dict[str, float]
    whole_us: dict[str, float]

    def ratio(self, caller: str, wire: str) -> float:
        """Translating over parsing."""
        return self.translating_us(caller, wire) / self.parsing_us[caller]

    def translating_us(self, caller: str, wire: str) -> float:
        return self.whole_us[f"{caller}-{wire}"] - self.parsing_us[caller]


def parser_of(caller: str) -> Callable[[bytes], Any]:
    """Parses a body and does what its format does before it translates."""
    import orjson

    check = _CHECKS[caller]()
    return lambda body: check(orjson.loads(body))


def translator_of(caller: str, wire: str) -> Callable[[bytes], bytes]:
    """From a caller's body to the body for an upstream of that wire kind."""
    import orjson

    from routing.formats.chat.format import CHAT
    from routing.formats.messages.format import MESSAGES
    from routing.formats.responses.format import RESPONSES
    from routing.upstreams.wires import wire_of

    (format,) = (each for each in (CHAT, MESSAGES, RESPONSES) if each.name == caller)
    adapter, terms = wire_of(wire), _terms()

    def translate(body: bytes) -> bytes:
        chat = format.parse(orjson.loads(body), session_header=None, models_max=3)
        return adapter.request(_prompt(chat, wire, terms), terms).body

    return translate


def _terms() -> "Terms":
    from routing.entities.exchange import Terms

    supported = frozenset({"temperature", "max_tokens", "tools", "tool_choice"})
    return Terms(_MODEL, supported, None, None, output_cap=None, output_default=4096)


def _prompt(chat: "ChatRequest", wire: str, terms: "Terms") -> "Prompt":
    """As `routing.serving.attempts.upstream_call` makes it."""
    from routing.entities.exchange import Prompt
    from routing.formats.chat.forward import forwarded_body

    body = chat.body
    if wire == "openai":
        body = forwarded_body(
            chat,
            upstream_model=terms.upstream_model,
            supported=terms.supported,
            user_hash=None,
            stream_usage=True,
            max_tokens_cap=None,
        )
    return Prompt(body, None, chat.stream, chat.max_output_tokens, None, None, False)


def _chat_check() -> Callable[[dict[str, Any]], object]:
    from routing.formats.chat.request import parse_chat

    return lambda body: parse_chat(body, session_header=None)


def _messages_check() -> Callable[[dict[str, Any]], object]:
    from routing.formats.messages.prompt import orphan_issues
    from routing.formats.messages.rules import cross_field_issues
    from routing.formats.messages.schema import check_messages

    def check(body: dict[str, Any]) -> object:
        return cross_field_issues(check_messages(body)[1], 3), list(orphan_issues(body["messages"]))

    return check


def _responses_check() -> Callable[[dict[str, Any]], object]:
    from routing.formats.responses.rules import cross_field_issues, orphan_issues
    from routing.formats.responses.schema import check_body

    def check(body: dict[str, Any]) -> object:
        check_body(body)
        return cross_field_issues(body), orphan_issues(body["input"])

    return check


_CHECKS: Final[dict[str, Callable[[], Callable[[dict[str, Any]], object]]]] = {
    "chat": _chat_check,
    "messages": _messages_check,
    "responses": _responses_check,
}


def measured(rounds: int, seconds: float) -> list[Translating]:
    """Each round times everything in turn."""
    bodies = {caller: conversation(caller) for caller in _CHECKS}
    parsers = {caller: parser_of(caller) for caller in bodies}
    translators = {pair: translator_of(*pair) for pair in TRANSLATIONS}
    one_s = seconds / (len(parsers) + len(translators))
    for work, body in [
        *((parsers[caller], body) for caller, body in bodies.items()),
        *((translators[pair], bodies[pair[0]]) for pair in TRANSLATIONS),
    ]:
        _us(work, body, one_s / 10)
    # As a web worker does once it has loaded (`gateway.server.rolling`).
    gc.collect()
    gc.freeze()
    return [
        Translating(
            {caller: len(body) for caller, body in bodies.items()},
            {caller: _us(parsers[caller], body, one_s) for caller, body in bodies.items()},
            {
                f"{caller}-{wire}": _us(translators[caller, wire], bodies[caller], one_s)
                for caller, wire in TRANSLATIONS
            },
        )
        for _ in range(rounds)
    ]


def _us(work: Callable[[bytes], object], body: bytes, seconds: float) -> float:
    return cpu_us(lambda: work(body), seconds=seconds, batch=_BATCH)


if __name__ == "__main__":
    print_measured(measured)
