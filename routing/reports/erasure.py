"""Erasing an end user from records of failed and refused requests."""

from django.db import transaction
from django.db.models import Exists, OuterRef, Q, QuerySet

from routing.history.erasure import AT_ONCE, EndUser, erase_tags, walk_rows
from routing.metering.models import Generation
from routing.reports.models import FailedRequest


def erase_from_failures(user: EndUser) -> int:
    """Erase the tags whose value is his id, and the request ids of his generations, as these lose
    them; how many rows had some."""
    erased = 0
    own = Generation.objects.filter(
        Q(user.matches("external_user")) | Q(user.matches("session_id"))
    )
    own = own.filter(pk=OuterRef("generation_id"), account_id=user.account_id)
    is_own = ~Q(request_id="") & Q(Exists(own))

    def erase(window: QuerySet[FailedRequest]) -> int:
        nonlocal erased
        with transaction.atomic():
            # Whoever is found has one or the other, and loses both: he is not found again.
            found = window.filter(Q(user.is_named_in("tags")) | is_own)
            rows = list(found.annotate(is_own=Exists(own)).order_by("at")[:AT_ONCE])
            for row in rows:
                row.tags = row.tags and erase_tags(row.tags, user)
                row.request_id = "" if row.is_own else row.request_id
            FailedRequest.objects.bulk_update(rows, ["tags", "request_id"])
        erased += len(rows)
        return len(rows)

    rows = FailedRequest.objects.filter(account_id=user.account_id)
    failures = rows.filter(Q(tags__isnull=False) | Q(generation_id__isnull=False))
    walk_rows(failures, "at", erase)
    return erased
