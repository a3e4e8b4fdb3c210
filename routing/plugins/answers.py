"""What plugins have to do with an answer."""

from collections.abc import Sequence
from typing import Any

from routing.formats.caller import AnswerPieces
from routing.formats.chat.request import ChatRequest
from routing.plugins.interface import Plugin


def rewritten(
    plugins: Sequence[Plugin],
    chat: ChatRequest,
    message: dict[str, Any],
    stages: list[dict[str, Any]],
) -> dict[str, Any]:
    """The message of a whole answer after the plugins; what they did is added to the stages."""
    for plugin in plugins:
        before = len(plugin.stages)
        message = plugin.answered(chat, message)
        stages += plugin.stages[before:]
    cited = citations(plugins)
    if cited:
        message = {**message, "annotations": [*(message.get("annotations") or ()), *cited]}
    return message


def said_at_last(pieces: AnswerPieces, text: str) -> AnswerPieces:
    """The pieces of an answer whose texts together were made into this one."""
    silent = [{**each, "content": None} if isinstance(each, dict) else each for each in pieces]
    return [*silent, {"role": "assistant", "content": text}]


def citations(plugins: Sequence[Plugin]) -> list[dict[str, Any]]:
    """What the answer cites on account of its plugins."""
    return [each for plugin in plugins for each in plugin.annotations()]
