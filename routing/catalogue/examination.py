"""What `manage.py doctor` says of the catalogue and its prices."""

from collections.abc import Iterator

from gateway.doctor.findings import Finding, Question
from routing.catalogue.models import Endpoint
from routing.catalogue.pricebook import refresh_prices
from routing.entities.vocabulary import STATUS_DISABLED, STATUS_REMOVED


def examine_prices(question: Question) -> Iterator[Finding]:
    offered = Endpoint.objects.exclude(status__in=(STATUS_DISABLED, STATUS_REMOVED))
    total, unpriced = offered.count(), offered.filter(pricing__isnull=True).count()
    if not total:
        advice = "Run: manage.py add_provider NAME"
        yield Finding("catalogue", "warning", "no endpoint is offered", advice)
        return
    if unpriced:
        advice = "They are never called: give them a price in the admin, or disable them."
        text = f"{unpriced} of {total} endpoints have no price"
        yield Finding("prices", "warning", text, advice)
    drift = refresh_prices(check=True).drift
    if drift:
        advice = "Run: manage.py refresh_prices"
        text = f"{len(drift)} of {total} endpoints cost other than the price book says"
        yield Finding("prices", "warning", text, advice)
    if not (unpriced or drift):
        yield Finding("prices", "ok", f"each of {total} endpoints has its price")
