"""Whether tool calls can be carried out. Each must name a function and give it a JSON object, or
the empty text that many write for a function without parameters."""

from typing import Final

import orjson

# Arguments beyond this are nobody's to judge.
_CHARS_MAX: Final = 1_048_576


class StreamedCalls:
    """The tool calls of a stream, put together from its deltas."""

    __slots__ = ("_chars", "_names", "_pieces")

    def __init__(self) -> None:
        self._chars = 0
        self._names: dict[int, str] = {}
        self._pieces: dict[int, list[str]] = {}

    def add(self, calls: object) -> None:
        """The `tool_calls` of one delta, whatever the upstream put there."""
        for call in calls if isinstance(calls, list) else ():
            if isinstance(call, dict):
                index, function = call.get("index"), call.get("function")
                if type(index) is not int:
                    # An upstream that numbers none sends each call in one piece.
                    index = -1 - len(self._pieces)
                name, piece = _read_function(function)
                pieces = self._pieces.setdefault(index, [])
                if name:
                    self._names[index] = name
                if piece is not None and (piece or not pieces) and self._chars <= _CHARS_MAX:
                    self._chars += len(piece)
                    pieces.append(piece)

    @property
    def good(self) -> bool | None:
        """None where there was no call, or too much to look at."""
        if not self._pieces or self._chars > _CHARS_MAX:
            return None
        return all(
            bool(self._names.get(index))
            and _are_valid_arguments("".join(pieces) if pieces else None)
            for index, pieces in self._pieces.items()
        )


def are_well_formed(calls: object) -> bool | None:
    """Of an answer in one piece; None where it calls no tool."""
    if not calls or not isinstance(calls, list):
        return None
    functions = [
        _read_function(call.get("function") if isinstance(call, dict) else None) for call in calls
    ]
    if sum(len(arguments or "") for _, arguments in functions) > _CHARS_MAX:
        return None
    return all(bool(name) and _are_valid_arguments(arguments) for name, arguments in functions)


def _read_function(function: object) -> tuple[str, str | None]:
    """Name and arguments: empty and None where they are no text."""
    if not isinstance(function, dict):
        return "", None
    name, arguments = function.get("name"), function.get("arguments")
    return (
        name if isinstance(name, str) else "",
        arguments if isinstance(arguments, str) else None,
    )


def _are_valid_arguments(arguments: str | None) -> bool:
    if not arguments:
        return arguments is not None
    try:
        return isinstance(orjson.loads(arguments), dict)
    except ValueError:
        return False
