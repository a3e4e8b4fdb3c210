"""`router:datetime`: what time it is."""

from datetime import UTC
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from gateway.http.jsonio import JsonObject
from routing.tools.interface import Definition, Result, ToolContext, ToolFailed
from routing.tools.texts import json_text

_PARAMETERS: Final = {
    "type": "object",
    "properties": {
        "timezone": {
            "type": "string",
            "description": "IANA name of a time zone, such as Europe/Paris.",
        }
    },
    "additionalProperties": False,
}


class Datetime:
    """Date and time in the caller's zone, or in the one that the model names."""

    time_s: float | None = None

    def __init__(self, parameters: JsonObject) -> None:
        self._zone: str = parameters.get("timezone", "UTC")
        description = f"The current date and time. Without a time zone: {self._zone}."
        self.definition = Definition("datetime", description, _PARAMETERS)

    def run(self, arguments: JsonObject, context: ToolContext) -> Result:
        name = arguments.get("timezone") or self._zone
        try:
            zone = UTC if name == "UTC" else ZoneInfo(name)
        except (ZoneInfoNotFoundError, ValueError, OSError, TypeError):
            # ValueError: not a relative path. OSError: a directory of zones, or a name too long.
            raise ToolFailed("timezone is no IANA name of a time zone") from None
        now = context.now().astimezone(zone).isoformat(timespec="seconds")
        fields = {"datetime": now, "timezone": name}
        return Result(json_text(fields), item=fields)
