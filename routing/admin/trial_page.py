"""The page that shows how test requests went."""

from typing import Any

from django.contrib.admin import AdminSite
from django.db.models import QuerySet
from django.http import HttpRequest
from django.template.response import TemplateResponse

from routing.admin.trial import OUTPUT_TOKENS_MAX, TOTAL_S, TRIALS_MAX, try_endpoints
from routing.catalogue.models import Endpoint

_TEMPLATE = "admin/routing/endpoint/trial.html"


def trial_page(
    request: HttpRequest, site: AdminSite, endpoints: QuerySet[Any], *, send: bool
) -> TemplateResponse:
    """Test requests to these endpoints: sent and shown, or explained with a button to send them."""
    chosen = list(endpoints.select_related("model", "provider")[: TRIALS_MAX + 1])
    context = {
        **site.each_context(request),
        "title": "Test request",
        "opts": Endpoint._meta,
        "endpoints": chosen[:TRIALS_MAX],
        "left_out": len(chosen) > TRIALS_MAX,
        "trials_max": TRIALS_MAX,
        "tokens": OUTPUT_TOKENS_MAX,
        "seconds": TOTAL_S,
        "trials": try_endpoints(chosen) if send else None,
    }
    return TemplateResponse(request, _TEMPLATE, context)
