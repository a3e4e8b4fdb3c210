"""Tags of a request: names and values that its caller gives, to see later what spent what.

They come from the caller's identity, from the header `X-Tags`, from `metadata`, and from what
`trace` has beside its own keys. Where a name is given twice, the first of these counts.
"""

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any, Final
from urllib.parse import unquote

TAGS_MAX: Final = 16
NAME_CHARS_MAX: Final = 64
VALUE_CHARS_MAX: Final = 512
_HEADER_CHARS_MAX: Final = 8_192
# What a trace is shaped by, and who is asked for: neither tells what spends.
_NO_TAGS: Final = frozenset(
    {
        *("trace_id", "trace_name", "span_name", "generation_name", "parent_span_id"),
        *("user", "user_id"),
    }
)
Tags = dict[str, str]
NO_TAGS: Final[Tags] = {}


class TagsInvalid(ValueError):
    """The header is no list of tags. The text says why, for its sender."""


def read_tags(header: str | None, metadata: object, trace: object, own: Tags = NO_TAGS) -> Tags:
    """The tags of a request, those of the caller's identity (`own`) among them. Raises
    `TagsInvalid` for the header alone. Whatever else has no room, is too long or is no plain value
    is not meant to be a tag."""
    tags = (_parse_header(header) | own) if header else dict(own)
    if len(tags) > TAGS_MAX:
        raise TagsInvalid(f"expected at most {TAGS_MAX} tags, with the {len(own)} of the token")
    for source in (metadata, trace):
        for name, value in _yield_plain(source) if isinstance(source, dict) else ():
            if len(tags) < TAGS_MAX:
                tags.setdefault(name, value)
    return tags


def select_tags(source: Mapping[str, Any]) -> dict[str, str]:
    """What of these names and values can be tags, as many as there may be."""
    return dict(islice(_yield_plain(source), TAGS_MAX))


def _parse_header(header: str) -> dict[str, str]:
    """`team=blue,feature=search`, percent-encoded where a name or value needs it."""
    if len(header) > _HEADER_CHARS_MAX:
        raise TagsInvalid(f"expected at most {_HEADER_CHARS_MAX} characters")
    tags: dict[str, str] = {}
    for pair in filter(None, map(str.strip, header.split(","))):
        quoted_name, equals, quoted_value = pair.partition("=")
        name, value = unquote(quoted_name.strip()), unquote(quoted_value.strip())
        if not equals or not name or not value:
            raise TagsInvalid("expected name=value pairs with commas between")
        if "=" in name or "\x00" in name + value:
            raise TagsInvalid("expected no equals sign in a name, and no null character")
        if len(name) > NAME_CHARS_MAX or len(value) > VALUE_CHARS_MAX:
            raise TagsInvalid(
                f"expected names of at most {NAME_CHARS_MAX} characters and values of at most "
                f"{VALUE_CHARS_MAX}"
            )
        tags.setdefault(name, value)
    if len(tags) > TAGS_MAX:
        raise TagsInvalid(f"expected at most {TAGS_MAX} tags")
    return tags


def _yield_plain(source: Mapping[Any, Any]) -> Iterator[tuple[str, str]]:
    for name, value in source.items():
        if not isinstance(name, str) or not 0 < len(name) <= NAME_CHARS_MAX or "=" in name:
            continue
        if isinstance(value, bool):
            text = "true" if value else "false"
        else:
            text = str(value) if isinstance(value, str | int | float) else ""
        if name not in _NO_TAGS and 0 < len(text) <= VALUE_CHARS_MAX and "\x00" not in name + text:
            yield name, text
