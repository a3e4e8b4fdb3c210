"""Taking the middle out of a conversation, until it fits (inference reference 1.9).

System messages stay, and so does the newest turn: the latest message of the user's and whatever
follows it. Of the others those in the middle go first; an assistant's calls of tools go together
with their results.
"""

from typing import Any, Final

from routing.formats.chat.facts import read_prompt

_KEPT_ROLES: Final = frozenset({"system", "developer"})
_CUT: Final = "\n…\n"
# A text that is cut to less than this says nothing any more.
_CUT_CHARS_MIN: Final = 64


def sizes_of(messages: list[dict[str, Any]]) -> list[int]:
    """The characters of each message."""
    return [read_prompt([each]).text_chars for each in messages]


def fixed_chars(messages: list[dict[str, Any]], sizes: list[int]) -> int:
    """The size of what is never taken out; `sizes` are those of the messages."""
    newest = _newest_turn(messages)
    return sum(sizes[at] for at, each in enumerate(messages) if at >= newest or _stays(each))


def without_middle(
    messages: list[dict[str, Any]], sizes: list[int], chars_max: int
) -> list[dict[str, Any]]:
    """The messages with as much of the middle taken out as brings them down to that size, or as
    near as what stays lets them. `sizes` are those of the messages."""
    excess = sum(sizes) - chars_max
    gone: set[int] = set()
    cut: dict[int, dict[str, Any]] = {}
    for unit in _from_the_middle(_units(messages)):
        if excess <= 0:
            break
        size = sum(sizes[at] for at in unit)
        if size > excess and (shorter := _shortened(messages, unit, excess)) is not None:
            cut[unit[0]] = shorter
            break
        gone.update(unit)
        excess -= size
    return [cut.get(at, each) for at, each in enumerate(messages) if at not in gone]


def _units(messages: list[dict[str, Any]]) -> list[list[int]]:
    """The places of what may go, together what goes together."""
    units: list[list[int]] = []
    # The latest unit that makes a call of that id.
    callers: dict[str, int] = {}
    for at in range(_newest_turn(messages)):
        message = messages[at]
        if _stays(message):
            continue
        if message["role"] == "tool" and units:
            # What answers a call stands somewhere behind it, mostly at once.
            units[callers.get(message["tool_call_id"], len(units) - 1)].append(at)
            continue
        callers |= {call["id"]: len(units) for call in message.get("tool_calls") or ()}
        units.append([at])
    return units


def _newest_turn(messages: list[dict[str, Any]]) -> int:
    """Where it begins: at the latest message of the user's, else at the last message, with the call
    that a result at the end answers."""
    last = len(messages) - 1
    users = (at for at in range(last, -1, -1) if messages[at]["role"] == "user")
    start = next(users, last)
    while start > 0 and messages[start]["role"] == "tool":
        start -= 1
    return start


def _from_the_middle(units: list[list[int]]) -> list[list[int]]:
    """Nearest to the middle first; of two as near the older."""
    middle = (len(units) - 1) / 2
    order = sorted(range(len(units)), key=lambda place: (abs(place - middle), place))
    return [units[place] for place in order]


def _shortened(
    messages: list[dict[str, Any]], unit: list[int], excess: int
) -> dict[str, Any] | None:
    """A message with so much less in the middle of its text; None where it is no mere text, or
    hardly anything would be left."""
    message = messages[unit[0]]
    text = message.get("content")
    if len(unit) > 1 or type(text) is not str or message.get("tool_calls"):
        return None
    left = len(text) - excess - len(_CUT)
    if left < _CUT_CHARS_MIN:
        return None
    head = (left + 1) // 2
    return {**message, "content": f"{text[:head]}{_CUT}{text[len(text) - left + head :]}"}


def _stays(message: dict[str, Any]) -> bool:
    return message["role"] in _KEPT_ROLES
