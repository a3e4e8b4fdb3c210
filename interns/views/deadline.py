"""The ten seconds that a request about an intern or a vault may take (management reference 6.8)."""

import time
from collections.abc import Callable
from functools import wraps
from typing import Any

from django.conf import settings
from gevent import Timeout

from gateway.database.db import under_gevent
from interns.errors import OperationTimedOut


def with_deadline(act: Callable[..., Any]) -> Callable[..., Any]:
    """The action, ended with `OperationTimedOut` when its time is up; what it began goes on.

    `self.until` is that moment of `time.monotonic`.
    """

    @wraps(act)
    def timed(self: Any, *args: Any, **kwargs: Any) -> Any:
        limit_s = settings.INTERN_OPERATION_SECONDS
        self.until = time.monotonic() + limit_s
        if not under_gevent():
            return act(self, *args, **kwargs)
        with Timeout(limit_s) as limit:
            try:
                return act(self, *args, **kwargs)
            except Timeout as passed:
                if passed is not limit:
                    raise
                raise OperationTimedOut from None

    return timed
