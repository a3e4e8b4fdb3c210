"""A caller's standing, looked up only where a request is about to be refused anyway.

Payment comes before routing in the order of refusals; the hold, which checks it for every request
that is sent, comes after. So a request without an endpoint asks the books first.
"""

from django.conf import settings

from accounts.models import Account, ApiKey
from accounts.services.keys import usage_nano
from accounts.windows import LIMITED_WINDOW
from gateway.db import Lane, run
from routing.serving.call import Call
from routing.serving.errors import insufficient_credits, key_limit_exhausted


def refuse_broke(call: Call) -> None:
    """Raise `PaymentRequired` for a spent key or an overdrawn account."""
    run(Lane.READ, lambda: _refuse_broke(call))


def _refuse_broke(call: Call) -> None:
    key = ApiKey.objects.get(pk=call.payer.key_id)
    if key.limit_nano is not None:
        spent_nano = usage_nano(key=key, at=call.created_at)[LIMITED_WINDOW[key.limit_reset]]
        if spent_nano >= key.limit_nano:
            raise key_limit_exhausted(call.root_url, key.limit_reset)
    if settings.BILLING_ENFORCED:
        account = Account.objects.get(pk=call.payer.account_id)
        if account.balance_nano < 0:
            raise insufficient_credits(call.root_url)
