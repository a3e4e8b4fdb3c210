"""One request on its way: what was admitted of it, and what has happened since."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, NamedTuple

from django.http import HttpRequest

from accounts.byok import ByokEntry
from accounts.caller import Caller
from gateway.http.errors import GatewayError
from gateway.http.jsonio import JsonObject
from gateway.http.request_id import RequestIdentity
from gateway.http.tags import NO_TAGS, Tags
from gateway.limits.allowances import NOTHING, Allowance
from gateway.limits.concurrency import Place
from gateway.limits.fair_queue import QueueStay, Waiting
from gateway.limits.limits import WindowsTaken
from gateway.limits.rules import LimitsTaken, Marks
from routing.entities.entries import EndpointEntry, HouseCredential, ModelEntry
from routing.entities.exchange import CANCELLED, WireRequest
from routing.formats.caller import AnswerIdentity, CallerFormat
from routing.formats.chat.request import ChatRequest
from routing.guarding.output_guard import OutputGuard
from routing.history.content_draft import ContentDraft
from routing.ledger.orders import Payer
from routing.metering.cost import Cost
from routing.metering.usage import Demand, Usage
from routing.plugins.interface import Plugin
from routing.response_cache.cache_options import CacheOptions
from routing.response_cache.cached_answers import Entry
from routing.selection.guardrail_filters import zdr_group
from routing.selection.types import EndpointState, Plan, Policy, Requirements
from routing.serving.request.legs import Hedge, Leg
from routing.serving.request.loop import Loop
from routing.serving.request.rescue import Rescue
from routing.serving.request.schema_check import SchemaCheck
from routing.serving.request.stickiness import ConversationKey
from routing.upstreams.anthropic.betas import parse_betas
from routing.upstreams.failures import UpstreamFailure


class AppFacts(NamedTuple):
    """What the caller's headers say of the calling application."""

    referer: str | None
    title: str | None
    categories: tuple[str, ...]
    user_agent: str | None


class Choice(NamedTuple):
    """What the plan was made from, as far as the record and the caller see it.

    `requested` are the references as the caller named them, `models` the models that these resolved
    to. `state` is narrowed to the plan's endpoints (`routing.selection.trace.kept_state`).
    """

    requested: tuple[str, ...]
    models: tuple[ModelEntry, ...]
    ask: Requirements
    policy: Policy
    state: EndpointState

    @property
    def retains_nothing(self) -> bool:
        """Whether nothing of the request may be kept: it, its account or a guardrail of one of its
        models wants zero data retention."""
        groups = self.policy.zdr_groups
        in_groups = any(zdr_group(model.id) in groups for model in self.models) if groups else False
        return self.policy.zdr or in_groups


class FirstByteLimit(NamedTuple):
    """How long to wait; None for the provider's own limit. `is_wish` says that only the caller's
    wish makes it that short: who misses it is late for this caller alone."""

    wait_s: float | None
    is_wish: bool = False


OWN_FIRST_BYTE_LIMIT: Final = FirstByteLimit(None)


@dataclass(slots=True)
class Attempt:
    """One endpoint tried. Times are monotonic seconds; `failure` is None when it answered.

    `own` is the team's own credential it is tried with, None for the gateway's.
    `status` is the upstream's own status, 502 for connection errors and 524 for timeouts. `request`
    is there until it is sent: a large one is not to live as long as its answer. `held_up_s` is how
    long a stream's caller kept it waiting; `priced` the usage that was priced last, and its price.
    `span_id` is the parent span that the upstream got, where there is a trace. `limits` is what it
    took of rate limits, until that is settled; `first_byte` is how long its first byte may take.
    `house` is the credential of the provider's pool that it is tried with, `house_nano` what the
    provider bills on it for an answer. `tokens_used` are those that were noted while the request
    goes on: of a turn, or of decisions. `calls_sent` are the calls that it was made by.
    """

    endpoint: EndpointEntry
    request: WireRequest | None
    started: float
    status: int = 0
    first_token: float | None = None
    ended: float | None = None
    upstream_id: str | None = None
    failure: UpstreamFailure | None = None
    held_up_s: float = 0.0
    own: ByokEntry | None = None
    priced: tuple[Usage, Cost] | None = None
    span_id: str | None = None
    limits: LimitsTaken | None = None
    first_byte: FirstByteLimit = OWN_FIRST_BYTE_LIMIT
    house: HouseCredential | None = None
    house_nano: int | None = None
    tokens_used: int = 0
    calls_sent: int = 1

    @property
    def is_cancelled(self) -> bool:
        """Whether another endpoint's content came first."""
        return self.failure is not None and self.failure.error_type == CANCELLED


class RequestContext(NamedTuple):
    """What was admitted: who asks for what, in which format, and the plan made of it. It is never
    changed; a later turn of a tool loop, or a payer whose limits have changed, gets another one.

    `format` is the caller's, `chat` the request it was translated to. `betas` names what the
    caller's header wants of message-style upstreams. `started` and `deadline` are monotonic
    seconds, `region` is the data region of the host that the request came in by.
    """

    generation_id: str
    caller: Caller
    payer: Payer
    format: CallerFormat
    chat: ChatRequest
    demand: Demand
    plan: Plan
    choice: Choice
    requested_model: str
    strategy: str
    root_url: str
    app: AppFacts
    # Whether the caller opted in to `router_metadata`.
    wants_metadata: bool
    created_at: datetime
    started: float
    deadline: float
    betas: str = ""
    region: str = "global"
    # Makes the error where no endpoint can serve the request. It is no exception yet: one that was
    # raised holds its frames, and these hold the request.
    refusal: Callable[[], GatewayError] | None = None
    # The preset that the request named, in the form that records keep.
    preset_id: str | None = None
    # The conversation to keep on the endpoint that answers it; None where none is to be kept.
    conversation_key: ConversationKey | None = None
    plugins: tuple[Plugin, ...] = ()
    # None where no caller waits for it over HTTP.
    identity: RequestIdentity | None = None
    # None where the answer may not come from the response cache.
    cache_options: CacheOptions | None = None
    # Whether the same requests under way wait for one answer.
    shares_answer: bool = False
    tags: Tags = NO_TAGS

    @property
    def created_s(self) -> int:
        return int(self.created_at.timestamp())

    @property
    def wants_hedge(self) -> bool:
        """Whether request, key or workspace, in this order, wants a late endpoint raced."""
        wishes = self.chat.provider
        wish = None if wishes is None else wishes.hedge
        return self.caller.hedge if wish is None else wish

    @property
    def wants_rescue(self) -> bool:
        """Whether request, key or workspace, in this order, wants broken streams continued."""
        wishes = self.chat.provider
        wish = None if wishes is None else wishes.rescue
        return self.caller.rescue if wish is None else wish

    @property
    def hides_reasoning(self) -> bool:
        """Whether the caller wants to see none."""
        return self.chat.reasoning is not None and self.chat.reasoning.exclude

    def identify_answer(self, attempt: Attempt) -> AnswerIdentity:
        """What an answer of this attempt says of itself."""
        endpoint = attempt.endpoint
        return AnswerIdentity(
            self.generation_id, self.created_s, endpoint.model_id, endpoint.provider.name
        )


# Without slots, so that what most requests never have (`init=False`) costs none of them anything.
@dataclass
class RequestProgress:
    """One request on its way: what was admitted, and what has happened since.

    Attempts write `attempts`, `served_by` and the hold. `held_nano` is the open one, None before
    there is one; `held_byok_nano` is what budgets that count own credentials hold in addition.
    Settlement writes `settled`, `is_reported`, `good_end` and `limits_taken`, the tool loop its
    `loop`, the response cache `cached`, decisions `demands_of` and `decisions_record`.
    """

    context: RequestContext
    # Where the request names server tools; None where it has none.
    loop: Loop | None = None
    # The request whose tool asks this one of a model: it pays, and its hold is raised.
    parent: "RequestProgress | None" = None
    # Those of `router_metadata.pipeline` that changed, answered or blocked something.
    stages: list[JsonObject] = field(default_factory=list)
    # Prompt and answer, where the workspace wants them kept.
    content: ContentDraft | None = None
    attempts: list[Attempt] = field(default_factory=list)
    # The attempt whose answer the caller got, where it is not the last.
    served_by: Attempt | None = field(default=None, init=False)
    held_nano: int | None = field(default=None, init=False)
    held_byok_nano: int = field(default=0, init=False)
    # Whether the ledger knows how it ended.
    settled: bool = field(default=False, init=False)
    # Whether a report of its end is on the way to observers.
    is_reported: bool = field(default=False, init=False)
    # The reasons of an answer in full for its end, its own and the upstream's.
    good_end: tuple[str, str | None] | None = field(default=None, init=False)
    # The end user and the tags by which rate limits tell it from others, once they were asked for.
    marks: Marks | None = field(default=None, init=False)
    # What it took of rate limits, until that is corrected or given back.
    limits_taken: WindowsTaken | None = field(default=None, init=False)
    # What the rules of key and workspace that count whole requests let it take.
    allowance: Allowance = field(default=NOTHING, init=False)
    # Its places among the requests under way that are counted, until it has ended.
    places: list[Place] | None = field(default=None, init=False)
    # The result of each look of an external guard.
    guard_checks: list[JsonObject] = field(default_factory=list, init=False)
    # Where guardrails look at what is answered.
    output_guard: OutputGuard | None = field(default=None, init=False)
    # Where answers are held to the schema of the request.
    schema_check: SchemaCheck | None = field(default=None, init=False)
    # Where what a stream's upstream breaks off is to be continued elsewhere.
    rescue: Rescue | None = field(default=None, init=False)
    # Its waiting for a place at a full endpoint, while that lasts, and what became of it.
    waiting: Waiting | None = field(default=None, init=False)
    queue_stay: QueueStay | None = field(default=None, init=False)
    # The caller's socket, to notice that he leaves while nothing is written to him. None where
    # somebody watches it already, or nobody may have to wait.
    client: object = field(default=None, init=False)
    # Where a second endpoint may be asked beside one that has given no content for a while.
    hedge: Hedge | None = field(default=None, init=False)
    # The answer that came from the response cache.
    cached: Entry | None = field(default=None, init=False)
    # When its caller's request came in, its planning began, and its hold was asked for, in
    # monotonic seconds; None where that is not so.
    received: float | None = field(default=None, init=False)
    planning_began: float | None = field(default=None, init=False)
    hold_asked: float | None = field(default=None, init=False)
    # What decisions ask of an endpoint, which is more than one query.
    demands_of: Callable[[EndpointEntry], Sequence[Demand]] | None = field(default=None, init=False)
    # What the record keeps of how questions were decided.
    decisions_record: JsonObject | None = field(default=None, init=False)

    @property
    def root(self) -> "RequestProgress":
        """The caller's own request, which has the hold."""
        return self if self.parent is None else self.parent.root

    @property
    def root_loop(self) -> Loop:
        """That of the root, for what requests on the same hold have in common. Only requests with
        server tools have any part in it."""
        loop = self.root.loop
        assert loop is not None
        return loop

    @property
    def last_attempt(self) -> Attempt | None:
        """The attempt the record speaks of: the one that was served, else the last. Of a race it is
        the one that did not fail, else the last to fail."""
        if self.served_by is not None or not self.attempts:
            return self.served_by
        if self.hedge is None:
            return self.attempts[-1]
        return max(
            self.attempts,
            key=lambda each: (not each.is_cancelled, each.failure is None, each.ended or 0.0),
        )

    @property
    def legs(self) -> Sequence[Leg]:
        """What is owed for attempts beside the one that answers."""
        rescue, hedge, check = self.rescue, self.hedge, self.schema_check
        if rescue is None and hedge is None and check is None:
            return ()
        sources = (rescue, hedge, check)
        return [leg for source in sources if source is not None for leg in source.legs]

    @property
    def listener(self) -> "ContentDraft | SchemaCheck | None":
        """The listener of what the caller reads."""
        return self.content if self.schema_check is None else self.schema_check

    def demands(self, endpoint: EndpointEntry) -> Sequence[Demand]:
        """What the endpoint would be sent, one for each query."""
        return (self.context.demand,) if self.demands_of is None else self.demands_of(endpoint)

    def passes_through(self, attempt: Attempt) -> bool:
        """Whether what this attempt's upstream says is what the caller reads, word for word.

        Chat answers are always written anew: nearly all of their fields are the gateway's. So are
        answers with server tools, which are several of an upstream's.
        """
        context = self.context
        return (
            context.format.name != "chat"
            and attempt.endpoint.wire_kind == context.format.wire
            # Vectors are no texts that could be changed.
            and (context.format.name == "embeddings" or not self._is_rewritten())
        )

    def _is_rewritten(self) -> bool:
        context = self.context
        return (
            context.hides_reasoning
            or self.loop is not None
            or self.rescue is not None
            or self.output_guard is not None
            or self.schema_check is not None
            or any(plugin.rewrites(context.chat) for plugin in context.plugins)
        )


def measure_demand(chat: ChatRequest) -> Demand:
    """The size of a request."""
    return Demand(
        text_bytes=chat.text_bytes,
        # Each input of embeddings may have a beginning and an end of its own.
        messages=max(chat.message_count, len(chat.input_chars)),
        media_parts=chat.media_parts,
        images=chat.image_parts,
        output_tokens_asked=chat.max_output_tokens,
        contexts=len(chat.input_chars) or 1,
    )


_TEXT_CHARS_MAX = 500
_BETA_HEADERS = ("HTTP_X_ANTHROPIC_BETA", "HTTP_ANTHROPIC_BETA")
CATEGORIES_MAX = 2
CATEGORY_CHARS_MAX = 30
_CATEGORY = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")


class CallerHeaders(NamedTuple):
    """`betas` names what the caller wants of message-style upstreams."""

    app: AppFacts
    betas: str
    wants_metadata: bool


def read_caller_headers(request: HttpRequest) -> CallerHeaders:
    """The calling application, the betas, and whether `router_metadata` is wanted."""
    meta = request.META
    texts = (
        # The header is called `HTTP-Referer`; browsers send `Referer` by themselves.
        meta.get("HTTP_HTTP_REFERER") or meta.get("HTTP_REFERER"),
        meta.get("HTTP_X_ROUTER_TITLE") or meta.get("HTTP_X_TITLE"),
        meta.get("HTTP_USER_AGENT"),
    )
    referer, title, user_agent = [text[:_TEXT_CHARS_MAX] if text else None for text in texts]
    header_categories = meta.get("HTTP_X_ROUTER_CATEGORIES")
    app = AppFacts(
        referer, title, read_categories(header_categories) if header_categories else (), user_agent
    )
    betas = [str(header) for name in _BETA_HEADERS if (header := meta.get(name))]
    metadata = meta.get("HTTP_X_ROUTER_METADATA")
    if metadata is None:
        metadata = meta.get("HTTP_X_ROUTER_EXPERIMENTAL_METADATA", "")
    wants_metadata = str(metadata).strip().lower() == "enabled"
    return CallerHeaders(app, parse_betas(betas) if betas else "", wants_metadata)


def read_categories(header: str) -> tuple[str, ...]:
    """The first two well-formed words of a comma list; what is not well-formed is left out."""
    words = (word.strip() for word in header.split(","))
    return tuple(
        word
        for word in words
        if len(word) <= CATEGORY_CHARS_MAX and _CATEGORY.fullmatch(word) is not None
    )[:CATEGORIES_MAX]
