"""A month of requests for a demo: copies of those it had, at earlier times, summed up.

`python -m tests.console.past_requests COUNT` works on the database of the environment's
GATEWAY_HOME. The books do not know the copies.
"""

import os
import random
import sys
from datetime import UTC, datetime, timedelta
from typing import Final

from django.db import OperationalError

_DAYS: Final = 30
_AT_ONCE: Final = 500
_TRIES: Final = 5


def copy_requests(count: int) -> None:
    """More of them in working hours, and more each week. Django must be set up."""
    from routing.history.rollup import mark_late_since, roll_up
    from routing.metering.models import Generation

    now = datetime.now(UTC)
    # The same pictures each time.
    chance = random.Random(7)
    known = list(Generation.objects.all())
    copies: list[Generation] = []
    while len(copies) < count:
        ago = chance.random() * _DAYS
        at = now - timedelta(days=ago)
        share = (1.2 - ago / _DAYS) * (1 if 7 <= at.hour < 18 else 0.25)
        if chance.random() > share * (0.3 if at.weekday() > 4 else 1):
            continue
        copy = chance.choice(known)
        values = {each.attname: getattr(copy, each.attname) for each in Generation._meta.fields}
        values |= {"id": f"gen-{int(at.timestamp())}-{len(copies):020}", "created_at": at}
        values["charge_nano"] = round(values["charge_nano"] * chance.uniform(20, 900))
        if values["latency_ms"]:
            values["latency_ms"] = round(values["latency_ms"] * chance.uniform(1, 6))
        copies.append(Generation(**values))
    Generation.objects.bulk_create(copies, batch_size=_AT_ONCE)
    mark_late_since(now - timedelta(days=_DAYS), now)
    for tries_left in reversed(range(_TRIES)):
        try:
            while roll_up(now):
                pass
            return
        except OperationalError:
            # The running gateway sums up the same hours, and SQLite knows no order of who waits.
            if not tries_left:
                raise


if __name__ == "__main__":
    import django

    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "gateway.settings")
    django.setup()
    copy_requests(int(sys.argv[1]))
