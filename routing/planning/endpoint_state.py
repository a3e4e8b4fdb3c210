"""What is known of the endpoints at this moment, and whether this request may probe one."""

from collections.abc import Sequence
from typing import Final

from accounts.byok import ByokEntry
from gateway.shared_cache import Patience
from routing.catalogue.snapshot import catalogue
from routing.entities.entries import EndpointEntry, ModelEntry
from routing.selection.types import EndpointState, Plan, Policy
from routing.serving.attempts.own_credentials import add_own_credentials
from routing.serving.request import process
from routing.serving.request.stickiness import Conversation
from routing.statistics import observation, peer_sync

# Who finds that another process is sending a probe looks again after so long: it is told of a probe
# that failed or succeeded, but not of one whose caller left.
LOOK_AGAIN_S: Final = 5.0


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
    return (
        add_own_credentials(state, own, models, aliases=catalogue.current().aliases)
        if own
        else state
    )


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
