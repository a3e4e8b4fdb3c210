"""What must not take long: bounds that are exact where nothing else runs."""

import os

# A measured time is of the machine as much as of the gateway. The nightly measures on a machine
# that does nothing else; elsewhere a bound only finds what hangs.
IS_TIMED = os.environ.get("GATEWAY_TEST_TIMED") == "1"
PATIENCE_S = 0.0 if IS_TIMED else 120.0


def in_time(
    took_s: float, at_most_s: float, *about: object, at_least_s: float | None = None
) -> None:
    """Raises AssertionError where `took_s` is outside of its bounds."""
    assert at_least_s is None or took_s >= at_least_s, (took_s, *about)
    assert took_s <= at_most_s + PATIENCE_S, (took_s, at_most_s, *about)
