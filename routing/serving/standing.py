"""A caller's standing, looked up only where a request is about to be refused anyway.

Payment comes before routing in the order of refusals; the hold, which checks it for every request
that is sent, comes after. So a request without an endpoint asks the books first.
"""

from django.conf import settings

from accounts.models import Account, ApiKey
from accounts.services.key_limits import usage_nano
from accounts.windows import LIMITED_WINDOW
from gateway.db import Lane, run
from routing.serving.call import Call
from routing.serving.errors import insufficient_credits, key_limit_exhausted


def refuse_broke(call: Call, *, free: bool) -> None:
    """Raise `PaymentRequired` for a spent key, or an account that owes or has nothing left;
    `free` says that the request might have cost nothing."""
    run(Lane.READ, lambda: _refuse_broke(call, free))


def _refuse_broke(call: Call, free: bool) -> None:
    key = ApiKey.objects.get(pk=call.payer.key_id)
    if key.limit_nano is not None:
        spent_nano = usage_nano(key=key, at=call.created_at)[LIMITED_WINDOW[key.limit_reset]]
        if spent_nano >= key.limit_nano and not free:
            raise key_limit_exhausted(call.root_url, key.limit_reset)
    if settings.BILLING_ENFORCED:
        account = Account.objects.get(pk=call.payer.account_id)
        if account.balance_nano < 0 or (account.balance_nano == 0 and not free):
            raise insufficient_credits(call.root_url)
