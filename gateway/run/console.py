"""What the supervisor says to the person in front of it."""

import sys
from contextlib import suppress


def say(message: str) -> None:
    """One line of news on stderr. Whoever read it may be gone; the work goes on all the same."""
    with suppress(OSError):
        sys.stderr.write(f"gateway: {message}\n")
        sys.stderr.flush()


def show(text: str) -> None:
    """The banner, on stdout."""
    with suppress(OSError):
        sys.stdout.write(text)
        sys.stdout.flush()
