"""What every caller format offers, so that serving needs to know none of them."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from gateway.http.errors import GatewayError
from gateway.http.jsonio import JsonObject
from routing.entities.exchange import Native, ProviderExtras
from routing.formats.chat.request import ChatRequest


class AnswerIdentity(NamedTuple):
    """What every answer and chunk of one generation says of itself."""

    generation_id: str
    created: int
    model: str
    provider: str


@dataclass(slots=True)
class ToolActivity:
    """One call of a server tool that the gateway ran. It has the id that the model gave, the tool's
    type and the name it was called by, and arguments and result as texts.

    `item` are the own fields of its output item in responses, `block` and `block_type` its result
    in messages where that format has one. `status` is "in_progress", "completed" or "failed".
    `started` and `ended` are monotonic seconds, None of a call that was not run.
    """

    call_id: str
    tool: str
    name: str
    arguments: str
    status: str = "in_progress"
    result: str = ""
    item: JsonObject = field(default_factory=dict)
    block_type: str | None = None
    block: Any = None
    # Its place among the reasoning details of a chat answer.
    index: int = 0
    started: float | None = None
    ended: float | None = None


# A whole answer in the order in which it came: chat-shaped messages (with their `logprobs`), and
# what tools did between.
AnswerPieces = Sequence[JsonObject | ToolActivity]


class Ending(NamedTuple):
    """How a generation ended. `usage` is the caller's report, chat-shaped, with `cost`,
    `cost_details` and `is_byok`. Where the upstream speaks the caller's format, `native` is what it
    said itself: its whole answer, or the event of its stream with `native_finish`. `failure` is
    what broke an answer after partial output: code, message and metadata. In streams it is only one
    that the format reports as a finished answer (`CallerFormat.finishing_errors`). `beside` is what
    an upstream of chat says in words of its own."""

    finish_reason: str
    native_finish: str | None
    usage: JsonObject
    service_tier: str | None
    stop_sequence: str | None
    native: Native | None
    failure: JsonObject | None
    router_metadata: JsonObject | None
    beside: ProviderExtras | None = None


class CompleteAnswer(NamedTuple):
    """A whole answer to be written: the cleaned chat-shaped message and how it ended. Where server
    tools ran, `pieces` are what the message is made of."""

    served: AnswerIdentity
    request: ChatRequest
    message: JsonObject
    logprobs: Any
    system_fingerprint: str | None
    ending: Ending
    pieces: AnswerPieces = ()


class StreamWriter(Protocol):
    """Writes one stream in the caller's format. Every method returns bytes to send, or `b""`.

    The order of calls: `write_opening` once, before the first `delta` or `begin_tool`. Then any
    number of `delta` (events of another format, chat-shaped and cleaned), or of `write_native`
    (events of the caller's own format). Then `write_ending` or `error`, the last. A stream never
    has both kinds of events. `debug` may come before the opening, and `keep_alive` stands between
    any two.
    """

    keep_alive: bytes

    def set_fingerprint(self, value: str) -> None:
        """Say the backend's fingerprint from now on, where the format has a place for it."""

    def debug(self, upstream_body: JsonObject) -> bytes:
        """The body an endpoint is sent, where the format shows it."""

    def write_opening(self) -> bytes:
        """What opens the stream. Events for `write_native` bring their own opening, so that this is
        not called before them."""

    def delta(self, delta: JsonObject, logprobs: object = None) -> bytes:
        """One chat-shaped delta."""

    def write_native(self, native: Native) -> bytes:
        """One event of the caller's own format, with the gateway's fields put in. Terminal events
        are kept back: `write_ending` says them, with the usage that was charged. The opening
        event of a stream comes here only once content follows."""

    def begin_tool(self, activity: ToolActivity) -> bytes:
        """A server tool is run. `write_opening` came before; such a stream has no native events."""

    def end_tool(self, activity: ToolActivity) -> bytes:
        """It has ended. Where several were begun they end in their order."""

    def mark_seam(self, seam: JsonObject) -> bytes:
        """Say that another upstream goes on from here, in an event that clients pass over. It goes
        on with the text, and begins its own thoughts. Such a stream has no native events."""

    def write_ending(self, ending: Ending) -> bytes:
        """The clean end."""

    def error(self, error: JsonObject, *, router_metadata: JsonObject | None) -> bytes:
        """The end after a failure; `error` has code, message and metadata (`error_type`)."""


class CallerFormat(Protocol):
    """`name` is "chat", "messages", "responses" or "decisions"; `wire` is its wire kind.

    Ids of its generations begin with `id_prefix`, and `api_type` is what their records call it.

    `finishing_errors` are error types that, after some output, are reported as the end of a
    finished answer rather than as an error.
    """

    name: str
    wire: str
    id_prefix: str
    api_type: str
    finishing_errors: frozenset[str]

    def parse(
        self,
        body: JsonObject,
        *,
        session_header: str | None,
        models_max: int,
        beside: JsonObject | None = None,
    ) -> ChatRequest:
        """Check a body and translate it. Raises `ChatInvalid`. `beside` are checked fields in the
        words of chat that this format has none for; chat itself has."""

    def new_call_id(self) -> str:
        """For a tool call whose upstream gave none."""

    def write_answer(self, answer: CompleteAnswer) -> JsonObject:
        """The body of a whole answer. Raises `GatewayError` where the format has no place for it
        (a break after partial output, in messages)."""

    def writer(self, served: AnswerIdentity, request: ChatRequest) -> StreamWriter:
        """For one stream."""

    def error_body(
        self, error: GatewayError, *, generation_id: str | None, beside: JsonObject
    ) -> JsonObject:
        """What an HTTP error says; `beside` has `user_id` and `router_metadata` where shown."""
