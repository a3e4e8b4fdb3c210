"""GET /credits: what the account bought and what it used."""

import uuid

from django.http import HttpRequest, HttpResponseBase

from accounts.models import Account
from accounts.views.managed import ManagedViewSet
from accounts.views.openapi.credits_description import describe_coinbase, describe_credits
from gateway.database.db import Lane, run_queries
from gateway.http.errors import Gone
from gateway.http.jsonio import usd
from gateway.http.responses import json_response


class CreditsViewSet(ManagedViewSet):
    """Management keys only. The list of statuses has no 503, so a silent database is a 500."""

    @describe_credits
    def retrieve(self, request: HttpRequest) -> HttpResponseBase:
        caller = self.manager(request)
        bought_nano, used_nano = run_queries(Lane.READ, lambda: _totals(caller.account_id))
        data = {"total_credits": usd(bought_nano), "total_usage": usd(used_nano)}
        return json_response({"data": data})

    @describe_coinbase
    def coinbase(self, request: HttpRequest) -> HttpResponseBase:
        raise Gone("The crypto charge API is gone. Use the web purchase flow.")


def _totals(account_id: uuid.UUID) -> tuple[int, int]:
    row = Account.objects.values_list("total_credits_nano", "total_usage_nano").get(pk=account_id)
    return row[0], row[1]
