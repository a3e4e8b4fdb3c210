"""Which providers there are, and what they make of a key: asked of the app above, which says so at
start-up."""

from collections.abc import Callable
from typing import Literal, NamedTuple


class KeyTrial(NamedTuple):
    """What a provider made of a key: `accepted`, `refused`, or `untold` where it did not say.

    `said` puts it into words, without the key.
    """

    verdict: Literal["accepted", "refused", "untold"]
    said: str


class _Asked(NamedTuple):
    is_known: Callable[[str], bool]
    try_key: Callable[[str, str], KeyTrial]


_asked: list[_Asked] = []


def know_providers_by(
    is_known: Callable[[str], bool], *, try_key: Callable[[str, str], KeyTrial]
) -> None:
    """Let `is_known` tell whether a slug is one of a provider, and `try_key` ask that provider
    about a key. The last ones given count."""
    _asked[:] = [_Asked(is_known, try_key)]


def is_known_provider(slug: str) -> bool:
    """Whether the catalogue has the provider. Raises `DatabaseGone`."""
    assert _asked, "nobody has said which providers there are"
    return _asked[0].is_known(slug)


def try_key(slug: str, key: str) -> KeyTrial:
    """Ask the provider about a key. Takes a few seconds at most; not for a transaction."""
    assert _asked, "nobody has said who asks providers"
    return _asked[0].try_key(slug, key)
