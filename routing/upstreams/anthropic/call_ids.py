"""Ids of tool calls as the API takes them: few characters, and each only once in a conversation.

Other providers write more characters, and some begin to count anew with every answer.
"""

import re
import zlib
from typing import Final

_ID: Final = re.compile(r"[A-Za-z0-9_-]+")
NOT_OF_AN_ID: Final = re.compile(r"[^A-Za-z0-9_-]")


class CallIds:
    """The ids of one conversation, asked for in its order."""

    def __init__(self) -> None:
        self._used: set[str] = set()
        self._times: dict[str, int] = {}
        self._latest: dict[str, str] = {}

    def of_call(self, given: str) -> str:
        """The id to send for a call."""
        told = spelled = _spelled(given)
        while told in self._used:
            self._times[spelled] = self._times.get(spelled, 1) + 1
            told = f"{spelled}_{self._times[spelled]}"
        self._used.add(told)
        self._latest[given] = told
        return told

    def of_result(self, given: str) -> str:
        """The id of the latest call that had the given one."""
        return self._latest.get(given) or _spelled(given)


def _spelled(given: str) -> str:
    """Two ids that differ stay two."""
    if _ID.fullmatch(given):
        return given
    return f"{NOT_OF_AN_ID.sub('_', given)}_{zlib.crc32(given.encode()):08x}"
