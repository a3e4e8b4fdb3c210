"""Making a simulated provider fail, to watch how others take over."""

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.views.decorators.http import require_POST

from console.page import PageContext, page
from console.queries import outage


@require_POST
@page
def begin_outage(request: HttpRequest, page: PageContext) -> HttpResponse:
    """For operators, on a demo."""
    provider = outage.find_simulated() if page.scope.is_operator else None
    if provider is None:
        raise Http404
    outage.begin_outage(provider)
    text = f"{provider.name} fails every request for a minute. Make some, and watch who takes over."
    messages.warning(request, text)
    return HttpResponseRedirect(reverse("console:requests"))
