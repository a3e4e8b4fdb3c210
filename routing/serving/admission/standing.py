"""A caller's standing, looked up only where a request is about to be refused anyway.

Payment comes before routing in the order of refusals; the hold, which checks it for every request
that is sent, comes after. So a request without an endpoint asks the books first.
"""

from django.conf import settings

from accounts.models import Account, ApiKey
from accounts.services.budgets import read_spending
from accounts.services.key_limits import read_usage
from gateway.database.db import Lane, run_queries
from routing.serving.admission.payment_errors import (
    budget_exceeded,
    insufficient_credits,
    key_limit_exhausted,
)
from routing.serving.request.call import Call


def refuse_broke(call: Call, *, free: bool, own_credential: bool = False) -> None:
    """Raise `PermissionDenied` for a spent budget, `PaymentRequired` for a spent key, or an account
    that owes or has nothing left; `free` says that the request might have cost nothing,
    `own_credential` that the team has one for it, where the balance waits for the endpoint."""
    run_queries(Lane.READ, lambda: _refuse_broke(call, free, own_credential))


def _refuse_broke(call: Call, free: bool, own_credential: bool) -> None:
    if call.payer.budgets and not free:
        counted = read_spending(call.payer.account_id, call.payer.budgets, at=call.created_at)
        for budget in call.payer.budgets:
            if counted[budget] >= budget.limit_nano:
                raise budget_exceeded(budget)
    key = ApiKey.objects.get(pk=call.payer.key_id)
    if key.limit_nano is not None and not free:
        spent_nano = read_usage(key=key, at=call.created_at).counted_nano(key)
        if spent_nano >= key.limit_nano:
            raise key_limit_exhausted(call, key.limit_reset)
    if settings.BILLING_ENFORCED and not own_credential:
        account = Account.objects.get(pk=call.payer.account_id)
        if account.balance_nano < 0 or (account.balance_nano == 0 and not free):
            raise insufficient_credits(call)
