"""The generation of a request id. There is no index of them: every answer would pay for one."""

from datetime import timedelta
from typing import Final
from uuid import UUID

from django.db.models.fields.json import KeyTextTransform

from gateway.http.request_id import read_request_time
from routing.metering.models import Generation

# So many of an account's records are looked at, in the order of its index by time.
RECORDS_MAX: Final = 1_000
# From a request's arrival to the time of its record: clocks differ, and a body may come slowly.
_BEFORE: Final = timedelta(seconds=1)
_AFTER: Final = timedelta(minutes=10)


def find_generation_id(account_id: UUID, request_id: str) -> str | None:
    """The account's generation whose request had that id. An id that the gateway made says when to
    look; one that its caller chose is looked for among the newest records."""
    rows = Generation.objects.filter(account_id=account_id, lost=False)
    made_at = read_request_time(request_id)
    if made_at is None:
        rows = rows.order_by("-created_at")
    else:
        rows = rows.filter(created_at__range=(made_at - _BEFORE, made_at + _AFTER))
        rows = rows.order_by("created_at")
    asked = rows.values_list("pk", KeyTextTransform("request_id", "detail"))[:RECORDS_MAX]
    return next((pk for pk, own_id in asked if own_id == request_id), None)
