"""A moderation hook, for gateways of tests that name it in `ROUTER_MODERATION_HOOK`."""

import time
from collections.abc import Sequence

FORBIDDEN, OUTAGE, TOO_FEW = "forbidden word", "moderation is out", "moderation loses count"
SLEEPY = "moderation is asleep"


def reasons(texts: Sequence[str]) -> list[list[str]]:
    """Why each of the texts is not to go on."""
    if any(OUTAGE in text for text in texts):
        raise ConnectionError("nobody is there")
    if any(SLEEPY in text for text in texts):
        time.sleep(3600)
    if any(TOO_FEW in text for text in texts):
        return []
    return [["violence", "spam"] if FORBIDDEN in text else [] for text in texts]
