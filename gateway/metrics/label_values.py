"""Values of labels that grow with what a gateway serves. Each of them makes series of its own, so
only so many are kept apart, and all others are `other`."""

import fcntl
from typing import Final

from gateway.metrics.files import folder

OTHER: Final = "other"
VALUES_MAX: Final = 200


class LabelValues:
    """The first 200 values over all processes, in a file that they share."""

    def __init__(self, label: str, *, most: int = VALUES_MAX) -> None:
        self._label = label
        self._most = most
        self._values: set[str] = set()

    def limit(self, value: str) -> str:
        """The value, or `other` where there are too many."""
        if value in self._values:
            return value
        if len(self._values) >= self._most:
            return OTHER
        self._learn(value)
        return value if value in self._values else OTHER

    def _learn(self, value: str) -> None:
        with (folder() / f"{self._label}.values").open("a+") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            file.seek(0)
            self._values = set(file.read().split("\n")) - {""}
            if value not in self._values and len(self._values) < self._most and "\n" not in value:
                file.write(f"{value}\n")
                self._values.add(value)
