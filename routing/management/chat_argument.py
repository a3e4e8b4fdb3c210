"""Chat bodies that operators put together on a command line."""

from functools import partial
from typing import Final

from accounts.caller import Caller
from gateway.commands import Refused
from gateway.http.errors import GatewayError, MalformedJson
from gateway.http.jsonio import JsonObject, loads
from routing.formats.chat.format import CHAT
from routing.formats.chat.request import ChatInvalid, ChatRequest
from routing.presets.apply import may_name_a_preset, read_with_preset

_PLAIN: Final[JsonObject] = {"session_header": None, "models_max": 3}
_MESSAGES = [{"role": "user", "content": ""}]


def json_object(text: str, argument: str) -> JsonObject:
    """The object an argument holds. Raises `Refused` naming the argument."""
    try:
        value = loads(text.encode())
    except MalformedJson as error:
        raise Refused(f"{argument} is no JSON") from error
    if not isinstance(value, dict):
        raise Refused(f"{argument} is no object")
    return value


def build_chat(body: JsonObject, caller: Caller | None = None) -> ChatRequest:
    """The request, with a message of its own where the body has none, and with the preset of the
    caller's workspace that it names. Raises `Refused`."""
    body = {"messages": _MESSAGES} | body
    try:
        if caller is not None and may_name_a_preset(body):
            return read_with_preset("chat", body, caller, partial(CHAT.parse, **_PLAIN)).chat
        return CHAT.parse(body, **_PLAIN)
    except GatewayError as error:
        raise Refused(error.text) from error
    except ChatInvalid as error:
        raise Refused(str(error)) from error
