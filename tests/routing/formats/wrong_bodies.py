"""Bodies that are right but for a value or two: each is read or refused, and none may break."""

from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from typing import Any, Final

from hypothesis import strategies as st

from routing.formats.chat.request import ChatInvalid, ChatRequest

Place = tuple[Any, ...]

# A value of every JSON type, plain and with another type inside.
ODD: Final[tuple[Any, ...]] = (
    *(None, True, 0, -1, 5.5, 1e308, 10**30, "", "x", "allowed_tools", "namespace", "custom"),
    *([], [None], ["x"], [[]], [{}], {}, {"x": None}, {"type": "x"}, {"type": []}, {"name": []}),
)
# Keys that the rules of some kind of object read.
_KEYS: Final = ("type", "name", "role", "content", "parameters", "tools", "cache_control", "id")


def places(value: Any, before: Place = ()) -> Iterator[Place]:
    """Where a value stands, or could, at any depth."""
    if isinstance(value, dict):
        for key in dict.fromkeys((*value, *_KEYS)):
            yield (*before, key)
            yield from places(value.get(key), (*before, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield (*before, index)
            yield from places(item, (*before, index))


def put(body: dict[str, Any], place: Place, value: Any) -> dict[str, Any]:
    """A copy of the body with the value at the place; the body where no way leads there."""
    changed = deepcopy(body)
    holder: Any = changed
    try:
        for key in place[:-1]:
            holder = holder[key]
        holder[place[-1]] = value
    except (TypeError, LookupError):
        return body
    return changed


def one_wrong(bodies: Sequence[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for body in bodies:
        for place in places(body):
            yield from (put(body, place, value) for value in ODD)


def some_wrong(
    bodies: Sequence[dict[str, Any]], values: st.SearchStrategy[Any]
) -> st.SearchStrategy[dict[str, Any]]:
    """A body with up to three values in wrong places."""
    placed = [(body, list(places(body))) for body in bodies]

    @st.composite
    def wrong(draw: st.DrawFn) -> dict[str, Any]:
        body, at = draw(st.sampled_from(placed))
        for _ in range(draw(st.integers(1, 3))):
            body = put(body, draw(st.sampled_from(at)), draw(st.sampled_from(ODD) | values))
        return body

    return wrong()


def is_read_or_refused(
    parse: Callable[[dict[str, Any]], ChatRequest], body: dict[str, Any]
) -> bool:
    """Whether the body is read, or refused with reasons that say something. Whatever else `parse`
    raises is raised."""
    try:
        parse(body)
    except ChatInvalid as refusal:
        return bool(refusal.issues) and all(issue.message for issue in refusal.issues)
    return True
