"""What selection is told beside the request: statistics, standing, and who served it before."""

import uuid
from collections.abc import Callable, Sequence
from typing import Final

from accounts.byok import ByokEntry
from gateway.live_settings import settings
from gateway.shared_cache import Patience
from routing.catalogue.snapshot import catalogue
from routing.entities.entries import EndpointEntry, ModelEntry
from routing.formats.chat.request import ChatRequest
from routing.selection.types import EndpointState, Plan, Policy
from routing.serving.attempts.own_credentials import with_own
from routing.serving.request import process, stickiness
from routing.statistics import observation, peer_sync

# Who finds that another process is sending a probe looks again after so long: it is told of a probe
# that failed or succeeded, but not of one whose caller left.
LOOK_AGAIN_S: Final = 5.0


class Conversation:
    """The conversation that a request belongs to. Who served it is asked for once, if at all.

    `model` is the reference that was asked for.
    """

    def __init__(self, chat: ChatRequest, *, account_id: uuid.UUID, model: str) -> None:
        self._chat = chat
        self._account_id = account_id
        self._model = model
        self._key: stickiness.Key | None = None
        self._kept: stickiness.Kept | None = None
        self._has_key = self._has_asked = False
        self.patience = Patience(settings.REDIS_TIMEOUT)

    def key(self, models: Sequence[ModelEntry] | None = None) -> stickiness.Key | None:
        """What it is kept under; None where it cannot be kept. `models` are the candidates, None
        while they are not known."""
        if not self._has_key:
            self._has_key = True
            self._key = stickiness.key_of(
                self._chat,
                account_id=self._account_id,
                model=self._model,
                models=models,
                patience=self.patience,
            )
        return self._key

    def model_id(self) -> str | None:
        """The model that answered last: what a virtual router keeps to."""
        kept = self._recalled(None)
        return kept.model_id if kept is not None else None

    def endpoint_in(self, models: Sequence[ModelEntry]) -> EndpointEntry | None:
        """The endpoint that answered last, where it is one of these models'."""
        kept = self._recalled(models)
        return kept.endpoint_in(models) if kept is not None else None

    def random(self) -> Callable[[], float]:
        """The source of its draws: for a session the same in every process, so that those that know
        of no record choose alike."""
        return self._seeded(b"")

    def random_of_models(self) -> Callable[[], float]:
        """The source of a virtual router's draw of a model. Its seed is another one: equal draws
        would tie a model to one of its endpoints."""
        return self._seeded(b"model")

    def _seeded(self, purpose: bytes) -> Callable[[], float]:
        if self._key is not None and self._key.by_session:
            return stickiness.seeded_random(self._key.digest + purpose)
        return process.chance

    def _recalled(self, models: Sequence[ModelEntry] | None) -> stickiness.Kept | None:
        key = self.key(models)
        if key is not None and not self._has_asked:
            self._has_asked = True
            self._kept = stickiness.recall(key)
        return self._kept


def state_for(
    conversation: Conversation,
    models: Sequence[ModelEntry],
    policy: Policy,
    own: Sequence[ByokEntry] = (),
) -> EndpointState:
    """The state of this moment for a request about these models, of a team with these credentials
    of its own."""
    key = conversation.key(models)
    endpoint: EndpointEntry | None = None
    by_session = key is not None and key.by_session
    # Elsewhere it makes no difference, and asking takes time.
    if key is not None and not policy.order and (by_session or not policy.sort_named):
        endpoint = conversation.endpoint_in(models)
    state = EndpointState(
        figures=observation.endpoint_stats(),
        health=observation.health_snapshot(),
        sticky=endpoint.pk if endpoint is not None else None,
        sticky_by_session=by_session,
    )
    return with_own(state, own, models, aliases=catalogue.current().aliases) if own else state


def may_go_on(plan: Plan, patience: Patience | None = None) -> bool:
    """Whether a plan that begins with a probe may be carried out: one request of all processes may
    send it. If not, the endpoint counts as unstable from now on, and there is another plan to make.
    """
    if plan.probe is None:
        return True
    # First of all, so that of this process nobody else asks.
    process.health().begin_probe(plan.probe, process.now())
    # One that is alone is tried whatever the others do.
    if len(plan.order) == 1 or peer_sync.may_probe(plan.probe, patience):
        return True
    process.health().begin_probe(plan.probe, process.now(), lasts_s=LOOK_AGAIN_S)
    return False
