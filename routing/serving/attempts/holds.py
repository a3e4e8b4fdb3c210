"""What a request holds before an endpoint is asked, and how that grows."""

from typing import Any, Final, NamedTuple

from accounts.authentication import reload_caller
from gateway.http.errors import Unavailable
from gateway.live_settings import settings
from routing.entities.entries import EndpointEntry
from routing.ledger.orders import HoldOrder, HoldRefusal, Outdated, TopUpOrder
from routing.ledger.writer import HOLD_WAIT_S, ledger
from routing.metering.byok import fee_bound_nano
from routing.metering.usage import ESTIMATE_MAX_NANO, Room, estimate_nano
from routing.serving.request.context import RequestProgress
from routing.serving.request.loop_costs import Charge

# If an account's limits change more often than this, its requests get 503.
_REBOOKINGS_MAX: Final = 8


class NeededHold(NamedTuple):
    """What the account holds, and what budgets that count own credentials hold beside."""

    amount_nano: int
    byok_nano: int


def estimate_attempt_nano(progress: RequestProgress, endpoint: EndpointEntry) -> int:
    """The most that asking this endpoint is thought to cost, at list price."""
    room = Room(endpoint.context_length, endpoint.max_completion_tokens)
    prices, cap = endpoint.prices, settings.ROUTER_ESTIMATE_OUTPUT_CAP
    assert prices is not None
    demands = progress.demands(endpoint)
    if len(demands) == 1:
        return estimate_nano(demands[0], room, prices, output_cap=cap)
    total = sum(estimate_nano(each, room, prices, output_cap=cap) for each in demands)
    return min(total, ESTIMATE_MAX_NANO)


def hold_for_estimate(estimated_nano: int, *, is_own: bool) -> NeededHold:
    """A call on the team's own credential is never nothing. It must differ from a free one, which
    the books refuse to whoever owes."""
    if not is_own:
        return NeededHold(estimated_nano, 0)
    return NeededHold(fee_bound_nano(estimated_nano), max(1, estimated_nano))


def share_hold(progress: RequestProgress, needed: NeededHold) -> NeededHold:
    """What the hold is to cover: a turn of this call, and what it and others on the same hold owe
    or are asking for."""
    owed = progress.loop.tally.most_owed if progress.loop is not None else Charge(0, 0)
    shares = progress.root_loop.shares
    shares[id(progress)] = Charge(
        owed.charged_nano + needed.amount_nano, owed.byok_nano + needed.byok_nano
    )
    return NeededHold(
        sum(share.charged_nano for share in shares.values()),
        sum(share.byok_nano for share in shares.values()),
    )


def add_to_hold(progress: RequestProgress, order: HoldOrder | TopUpOrder, *, sign: int = 1) -> None:
    progress.held_nano = (progress.held_nano or 0) + sign * order.amount_nano
    progress.held_byok_nano += sign * order.byok_nano


def missing_hold(needed: NeededHold, held: NeededHold) -> NeededHold | None:
    """How a hold is to grow; None where it covers the need. What the account holds counts in every
    budget, so where that part grows the other may shrink."""
    amount_nano = max(needed.amount_nano, held.amount_nano)
    byok_nano = max(0, sum(needed) - amount_nano)
    if amount_nano == held.amount_nano and byok_nano <= held.byok_nano:
        return None
    return NeededHold(amount_nano - held.amount_nano, byok_nano - held.byok_nano)


def may_smaller_hold_fit(refusal: HoldRefusal) -> bool:
    """Whether a smaller hold could have been placed; a broke account is refused at once."""
    enforced = settings.BILLING_ENFORCED and refusal.asks_the_account
    lefts = [refusal.balance_nano - refusal.held_nano] if enforced else []
    if refusal.key_left_nano is not None:
        lefts.append(refusal.key_left_nano - refusal.key_held_nano)
    lefts += [state.left_nano - state.held_nano for state in refusal.budgets]
    return min(lefts, default=0) > 0


def rebook_with_current_limits(progress: RequestProgress, order: HoldOrder | TopUpOrder) -> Any:
    """The outcome of an order whose payer knew older limits, once it knows the current ones.

    Where the key was moved to another workspace, that one's limits are none of this call's: it
    counts where it began. A caller who sends it again meets the rules of the new one.
    """
    for _ in range(_REBOOKINGS_MAX):
        caller = reload_caller(progress.context.caller)
        if caller.workspace_id != progress.root.context.payer.workspace_id:
            raise Unavailable
        payer = progress.root.context.payer._replace(
            budgets=caller.list_budgets(
                progress.root.context.chat.user, progress.root.context.tags
            ),
            limits_version=caller.limits_version,
            limited=caller.limited,
        )
        progress.context = progress.context._replace(caller=caller, payer=payer)
        progress.root.context = progress.root.context._replace(payer=payer)
        order = order._replace(payer=progress.root.context.payer)
        outcome = ledger.wait(ledger.submit(order), HOLD_WAIT_S)
        if not isinstance(outcome, Outdated):
            return outcome
    raise Unavailable
