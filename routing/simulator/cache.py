"""Prompt caching: which beginnings of prompts a provider has seen before."""

from collections import OrderedDict
from hashlib import sha256
from typing import NamedTuple

ENTRIES_MAX = 10_000


class CacheUse(NamedTuple):
    """Prompt tokens read from the cache and written to it."""

    read: int = 0
    written: int = 0


NO_CACHE = CacheUse()


class PromptCache:
    """Remembers beginnings of prompts, the newest 10,000, each provider its own."""

    def __init__(self) -> None:
        self._seen: OrderedDict[bytes, None] = OrderedDict()

    def use(self, persona: str, prefixes: list[tuple[str, int]]) -> CacheUse:
        """Look up marked beginnings, shortest first, as (text, tokens); all are then known.

        What is read is the longest one known, what is written the rest up to the longest given.
        """
        read = 0
        for text, tokens in prefixes:
            if self._known(persona, text):
                read = max(read, tokens)
        longest = prefixes[-1][1] if prefixes else 0
        return CacheUse(read, longest - read)

    def _known(self, persona: str, text: str) -> bool:
        key = sha256(f"{persona}\0{text}".encode("utf-8", "replace")).digest()
        known = key in self._seen
        self._seen[key] = None
        self._seen.move_to_end(key)
        if len(self._seen) > ENTRIES_MAX:
            self._seen.popitem(last=False)
        return known
