"""Erasing an end user from records of failed and refused requests."""

from django.db import transaction
from django.db.models import QuerySet

from routing.history.erasure import AT_ONCE, EndUser, erase_tags, walk_rows
from routing.reports.models import FailedRequest


def erase_from_failures(user: EndUser) -> int:
    """Erase the tags whose value is his id; how many rows had some."""
    erased = 0

    def erase(window: QuerySet[FailedRequest]) -> int:
        nonlocal erased
        with transaction.atomic():
            found = window.filter(user.is_named_in("tags")).only("tags").order_by("at")
            rows = list(found[:AT_ONCE])
            for row in rows:
                row.tags = row.tags and erase_tags(row.tags, user)
            FailedRequest.objects.bulk_update(rows, ["tags"])
        erased += len(rows)
        return len(rows)

    failures = FailedRequest.objects.filter(account_id=user.account_id, tags__isnull=False)
    walk_rows(failures, "at", erase)
    return erased
