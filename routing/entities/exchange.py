"""The values that caller formats and upstream adapters exchange, so that neither knows the other.

Prompts, deltas, messages, logprobs and usage have the shape of the chat format. If caller and
endpoint speak the same format, the original travels beside (`Prompt.original`, `Native`), so that
no translation loses anything.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, Protocol

from gateway.http.jsonio import JsonObject
from routing.entities.efforts import Effort

# The error type of an attempt that was given up because another endpoint's content came first.
CANCELLED: Final = "cancelled"


class Native(NamedTuple):
    """An upstream's own payload: the wire kind, the event's name (empty for a whole answer), the
    payload's bytes and what they parse to."""

    kind: str
    name: str
    raw: bytes
    value: JsonObject


class ProviderExtras(NamedTuple):
    """Fields of a provider's chat answer that the format does not know: beside its choices, and in
    the choice beside the message."""

    answer: JsonObject
    choice: JsonObject


@dataclass(slots=True)
class Event:
    """One parsed upstream event. `native_finish` is the provider's own word.

    `usage` is the usage so far in the chat format's shape, `error` a raw error object inside a 200
    stream. Without `has_choice` the event spoke of other things only. `stop_sequence` is the one
    that was met. `native` stands on the first event of each payload, and on that alone. `beside` is
    there where the upstream speaks chat.
    """

    delta: JsonObject = field(default_factory=dict)
    native_finish: str | None = None
    logprobs: Any = None
    usage: Any = None
    error: Any = None
    upstream_id: str | None = None
    system_fingerprint: str | None = None
    service_tier: str | None = None
    has_choice: bool = True
    stop_sequence: str | None = None
    native: Native | None = None
    beside: ProviderExtras | None = None


@dataclass(slots=True)
class Answer:
    """One whole upstream answer; `message` is chat-shaped. The other fields as in `Event`."""

    message: JsonObject
    native_finish: str | None
    logprobs: Any
    usage: Any
    error: Any
    upstream_id: str | None
    system_fingerprint: str | None
    service_tier: str | None
    stop_sequence: str | None = None
    native: Native | None = None
    beside: ProviderExtras | None = None


class Prompt(NamedTuple):
    """A request for an adapter to send. `body` is chat-shaped and checked; `original` is the
    caller's own checked body where caller and endpoint speak the same format, else None.

    `effort` and `reasoning_tokens` are the resolved reasoning wishes, fitted to the endpoint:
    `reasoning_tokens` only where it takes budgets, and then they win. With `exclude_reasoning` the
    caller does not want to see any.
    `max_output_tokens` is the caller's cap, None where there is none.
    """

    body: JsonObject
    original: JsonObject | None
    stream: bool
    max_output_tokens: int | None
    effort: Effort | None
    reasoning_tokens: int | None
    exclude_reasoning: bool


class Terms(NamedTuple):
    """What one endpoint takes. `supported` are the parameters it lists (chat vocabulary) and its
    extra ones. `user_hash` is the end user's identity where the endpoint may have it, `credential`
    the provider's secret. `output_cap` bounds the output; None says that nothing is known beyond
    the caller's wish. `output_default` is what a wire that insists on a cap gets where the caller
    named none.
    """

    upstream_model: str
    supported: frozenset[str]
    user_hash: str | None
    credential: str | None
    output_cap: int | None
    output_default: int


class WireRequest(NamedTuple):
    """What goes upstream: path below the provider's base URL, headers and body."""

    path: str
    headers: tuple[tuple[str, str], ...]
    body: bytes


class StreamReader(Protocol):
    """Reads one stream of an upstream, payload by payload (what `data:` lines say).

    `ended` is set by the wire's own terminal event; what follows it is not read. A reader of a wire
    without one leaves it False: then the end of the bytes is the end, where a finish was seen.
    """

    ended: bool

    def events(self, payload: bytes) -> Sequence[Event]:
        """The events of a payload, in order. Raises `UpstreamFailure` for what is no event.

        A payload without a meaning in the chat format is an event with an empty delta. Its `native`
        carries it to a caller of the same format.
        """


class ListedModel(NamedTuple):
    """The facts of an entry in a provider's list of models that depend on the wire kind; None where
    the entry has none."""

    output_tokens_max: int | None = None
    input_modalities: list[str] | None = None
    parameters: list[str] | None = None


class Wire(Protocol):
    """An adapter: everything about one wire kind, pure.

    `takes_budgets`: it has a word for a reasoning budget in tokens. `needs_output_cap`: each call
    names one, which is `Terms.output_default` where the caller names none. `keeps_tools_when_off`:
    a conversation with calls needs their tools even if no more calls are allowed.
    `takes_prefill`: a conversation may end with the beginning of the answer.
    `output_tokens_min` is the least cap it takes, `usual_parameters` are those of its models unless
    the catalogue names others. It reads the caller's request id from `request_id_header`, if any.
    Its providers keep prompts in their cache for `cache_lifetime_s`, None where they differ.
    """

    kind: str
    takes_budgets: bool
    needs_output_cap: bool
    keeps_tools_when_off: bool
    takes_prefill: bool
    output_tokens_min: int
    usual_parameters: tuple[str, ...]
    request_id_header: str | None
    cache_lifetime_s: float | None

    def headers(self, credential: str | None, *, stream: bool) -> tuple[tuple[str, str], ...]:
        """The headers of every call."""

    def request(self, prompt: Prompt, terms: Terms) -> WireRequest:
        """The call to send."""

    def with_betas(self, request: WireRequest, betas: str) -> WireRequest:
        """The call with the caller's names of beta features (a comma list) as well, where the wire
        kind has such."""

    def count_tokens(self, request: WireRequest) -> WireRequest | None:
        """The call that counts the prompt of a request; None where the wire kind has none."""

    def listing(self, credential: str | None) -> WireRequest:
        """The GET for all models of a provider."""

    def read_listed(self, entry: JsonObject) -> ListedModel:
        """The facts of an entry of that list."""

    def answer(self, body: bytes, content_type: str) -> Answer:
        """Read a whole answer. Raises `UpstreamFailure` for anything else."""

    def reader(self) -> StreamReader:
        """For one stream."""
