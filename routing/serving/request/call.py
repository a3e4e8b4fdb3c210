"""One request on its way: who asks for what, the plan, what was tried so far."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

from accounts.byok import ByokEntry
from accounts.caller import Caller
from gateway.http.errors import GatewayError
from gateway.limits.limits import Taken
from routing.entities.entries import EndpointEntry, ModelEntry
from routing.entities.exchange import WireRequest
from routing.formats.caller import AnswerIdentity, CallerFormat
from routing.formats.chat.request import ChatRequest
from routing.history.content_draft import ContentDraft
from routing.ledger.orders import Payer
from routing.metering.cost import Cost
from routing.metering.estimate import Demand
from routing.metering.usage import Usage
from routing.plugins.interface import Plugin
from routing.response_cache.entry import Entry
from routing.response_cache.wish import Wish
from routing.selection.guardrail_filters import zdr_group
from routing.selection.types import EndpointState, Plan, Policy, Requirements
from routing.serving.request.loop import Loop
from routing.serving.request.stickiness import Key
from routing.serving.request.tally import Charge
from routing.tools.interface import ModelAnswer
from routing.upstreams.failures import UpstreamFailure


class AppFacts(NamedTuple):
    """What the caller's headers say of the calling application."""

    referer: str | None
    title: str | None
    categories: tuple[str, ...]
    user_agent: str | None


class Choice(NamedTuple):
    """What the plan was made from, as far as the record and the caller are told of it.

    `requested` are the references as the caller named them, `models` what they came to. `state` is
    narrowed to the plan's endpoints (`routing.selection.trace.kept_state`).
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
        named = any(zdr_group(model.id) in groups for model in self.models) if groups else False
        return self.policy.zdr or named


@dataclass(slots=True)
class Attempt:
    """One endpoint tried. Times are monotonic seconds; `failure` is None when it answered.

    `own` is the team's own credential it is tried with, None for the gateway's.
    `status` is the upstream's own status, 502 for connection errors and 524 for timeouts. `request`
    is there until it is sent: a large one is not to live as long as its answer. `held_up_s` is how
    long a stream's caller kept it waiting; `priced` the usage that was priced last, and its price.
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


# Without slots, so that what most calls never have (`init=False`) costs none of them anything.
@dataclass
class Call:
    """`format` is the caller's, `chat` the request it was translated to. `betas` names what the
    caller wants of message-style upstreams beside their version, as its header did.

    `started` and `deadline` are monotonic seconds. `held_nano` is the open hold, None before
    there is one; `held_byok_nano` is what it holds beside, of budgets that calls on the team's own
    credentials count toward. `wants_metadata` is the caller's opt-in to `router_metadata`.
    `settled` is set once the ledger was told how it ended; `refusal` makes what the caller is told
    where no endpoint can serve it; `served_by` is the attempt whose answer the caller got, where it
    is not the last. `stages` are those of `router_metadata.pipeline` that changed, answered or
    blocked something."""

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
    wants_metadata: bool
    created_at: datetime
    started: float
    deadline: float
    held_nano: int | None = field(default=None, init=False)
    held_byok_nano: int = field(default=0, init=False)
    attempts: list[Attempt] = field(default_factory=list)
    settled: bool = field(default=False, init=False)
    betas: str = ""
    # No exception of its own: one that was raised holds its frames, and these hold the call.
    refusal: Callable[[], GatewayError] | None = None
    served_by: Attempt | None = field(default=None, init=False)
    stages: list[dict[str, Any]] = field(default_factory=list)
    # The conversation to keep on the endpoint that answers it; None where none is to be kept.
    sticky: Key | None = field(default=None, init=False)
    # The preset that the request named, in the form that records keep.
    preset_id: str | None = field(default=None, init=False)
    # What it took of rate limits, until that is corrected or given back.
    taken: Taken | None = field(default=None, init=False)
    # What is asked of an endpoint, where that is more than one thing.
    planned: Callable[[EndpointEntry], Sequence[Demand]] | None = field(default=None, init=False)
    # What the record keeps of how questions were decided.
    decided: dict[str, Any] | None = field(default=None, init=False)
    # The data region of the host that the request came in by.
    region: str = "global"
    # What is said and answered, where the workspace wants it kept.
    content: ContentDraft | None = field(default=None, init=False)
    # Where the request names server tools; None where it has none.
    loop: Loop | None = None
    # The call whose tool asks this one of a model: it pays, and its hold is raised.
    parent: "Call | None" = None
    # What calls on its behalf, this one included, may have to pay of the hold; by their identity.
    shares: dict[int, Charge] = field(default_factory=dict)
    # Nobody reads the answer any more; of the root, and set before its tools are stopped.
    caller_left: bool = field(default=False, init=False)
    # Asks a model for a tool of this call.
    ask: Callable[["Call", dict[str, Any]], ModelAnswer] | None = None
    # Those that the request switches on.
    plugins: tuple[Plugin, ...] = ()
    # Where the answer may come from the response cache; and the answer that did.
    cache_wish: Wish | None = field(default=None, init=False)
    retold: Entry | None = field(default=None, init=False)
    # The reasons of an answer in full for its end, its own and the upstream's.
    good_end: tuple[str, str | None] | None = field(default=None, init=False)
    # Whether a turn of it, or of an agent that it asked, could not be paid.
    cut_unpaid: bool = field(default=False, init=False)

    @property
    def last_attempt(self) -> Attempt | None:
        """The attempt the record speaks of: the one that was served, else the last."""
        return self.served_by or (self.attempts[-1] if self.attempts else None)

    def demands(self, endpoint: EndpointEntry) -> Sequence[Demand]:
        """What the endpoint would be sent, one for each call."""
        return (self.demand,) if self.planned is None else self.planned(endpoint)

    @property
    def created(self) -> int:
        return int(self.created_at.timestamp())

    def passes(self, attempt: Attempt) -> bool:
        """Whether what this attempt's upstream says is what the caller reads, word for word.

        Chat answers are always written anew: their fields are the gateway's nearly all. So are
        answers with server tools, which are several of an upstream's.
        """
        spoken = attempt.endpoint.provider.kind
        return (
            spoken == self.format.wire
            and self.format.name != "chat"
            and not self.hides_reasoning
            and self.loop is None
            and not any(plugin.rewrites(self.chat) for plugin in self.plugins)
        )

    @property
    def root(self) -> "Call":
        """The caller's own call, which has the hold."""
        return self if self.parent is None else self.parent.root

    @property
    def hides_reasoning(self) -> bool:
        """Whether the caller wants to see none."""
        return self.chat.reasoning is not None and self.chat.reasoning.exclude

    def served(self, attempt: Attempt) -> AnswerIdentity:
        """What an answer of this attempt says of itself."""
        endpoint = attempt.endpoint
        return AnswerIdentity(
            self.generation_id, self.created, endpoint.model_id, endpoint.provider.name
        )


def forget_origin(error: BaseException) -> None:
    """Keep what an exception says, not where it was raised, nor what it was raised from.

    Its traceback holds every frame it passed, and these hold the call and its prompt: whoever keeps
    the exception where they can see it would keep all of it until the next garbage collection.
    """
    origins = (error.__cause__, error.__context__)
    error.__traceback__ = error.__cause__ = error.__context__ = None
    for origin in origins:
        if origin is not None:
            forget_origin(origin)
