"""What must not take long, and what is tried once more where it did."""


class TooSlow(AssertionError):
    """Something came, but late."""


# Measured times are of the machine as much as of the gateway: a test that met one is run a second
# time, and the summary tells it. What did not come at all, or came out wrong, is not tried again.
LATE = [TooSlow]


def in_time(
    took_s: float, at_most_s: float, *about: object, at_least_s: float | None = None
) -> None:
    """Raises `TooSlow` past `at_most_s`, `AssertionError` below `at_least_s`."""
    assert at_least_s is None or took_s >= at_least_s, (took_s, *about)
    if took_s > at_most_s:
        raise TooSlow(f"{took_s:.4f} s, at most {at_most_s:.4f} s", *about)
