"""GET /credits: what the account bought and what it used."""

import uuid
from typing import Final

from django.http import HttpRequest, HttpResponseBase
from drf_spectacular.utils import extend_schema

from accounts.models import Account
from accounts.views.managed import ManagedViewSet, describe_operations
from gateway.database.db import Lane, run_queries
from gateway.http.errors import Gone
from gateway.http.jsonio import usd
from gateway.http.responses import json_response
from gateway.openapi.components import NO_KEY, USD, Component, add_description, obj
from gateway.openapi.errors import error_responses

_TAG: Final = "Keys and credits"
_CREDITS: Final = Component(
    "Credits",
    obj(
        {
            "data": obj(
                {
                    "total_credits": add_description(USD, "USD bought in total."),
                    "total_usage": add_description(USD, "USD used in total."),
                }
            )
        }
    ),
)
_operation = describe_operations(_TAG)


class CreditsViewSet(ManagedViewSet):
    """Management keys only. The list of statuses has no 503, so a silent database is a 500."""

    @_operation(
        "getCredits",
        "Get the account's credits",
        "Both totals. The balance is the difference and may be negative.",
        _CREDITS,
    )
    def retrieve(self, request: HttpRequest) -> HttpResponseBase:
        caller = self.manager(request)
        bought_nano, used_nano = run_queries(Lane.READ, lambda: _totals(caller.account_id))
        data = {"total_credits": usd(bought_nano), "total_usage": usd(used_nano)}
        return json_response({"data": data})

    @extend_schema(
        operation_id="createCoinbaseCharge",
        summary="Charge by crypto (gone)",
        description="Always 410.",
        tags=[_TAG],
        deprecated=True,
        auth=NO_KEY,
        request=None,
        responses=error_responses(410, 500),
    )
    def coinbase(self, request: HttpRequest) -> HttpResponseBase:
        raise Gone("The crypto charge API is gone. Use the web purchase flow.")


def _totals(account_id: uuid.UUID) -> tuple[int, int]:
    row = Account.objects.values_list("total_credits_nano", "total_usage_nano").get(pk=account_id)
    return row[0], row[1]
