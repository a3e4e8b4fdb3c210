"""Small bodies of a format, and what tests ask of them: what was read, what was refused. Here are
those of chat; those of messages and responses are beside their tests."""

from typing import Any

import pytest

from routing.formats.caller import CallerFormat
from routing.formats.chat.format import CHAT
from routing.formats.chat.request import ChatInvalid, ChatRequest

USER: dict[str, Any] = {"role": "user", "content": "hi"}
CALL: dict[str, Any] = {
    "id": "c1",
    "type": "function",
    "function": {"name": "f", "arguments": "{not json"},
}
FUNCTION: dict[str, Any] = {"type": "function", "function": {"name": "f"}}
DATA_URL = "data:image/png;base64,AAAA"


class Bodies:
    """A format's bodies: what each has at least, and the fields that a test is about."""

    def __init__(self, format: CallerFormat, **least: Any) -> None:
        self._format, self._least = format, {"model": "acme/small", **least}

    def body(self, **fields: Any) -> dict[str, Any]:
        return {**self._least, **fields}

    def parse(self, body: dict[str, Any], header: str | None = None) -> ChatRequest:
        return self._format.parse(body, session_header=header, models_max=3)

    def parse_fields(self, header: str | None = None, /, **fields: Any) -> ChatRequest:
        return self.parse(self.body(**fields), header)

    def expect_refusal(self, header: str | None = None, /, **fields: Any) -> ChatInvalid:
        with pytest.raises(ChatInvalid) as caught:
            self.parse_fields(header, **fields)
        return caught.value

    def paths(self, header: str | None = None, /, **fields: Any) -> list[str]:
        return [issue.path for issue in self.expect_refusal(header, **fields).issues]

    def text_of(self, **fields: Any) -> str:
        return str(self.expect_refusal(**fields))


BODIES = Bodies(CHAT, messages=[USER])
chat, parse_fields, expect_refusal = BODIES.body, BODIES.parse_fields, BODIES.expect_refusal
paths, text_of = BODIES.paths, BODIES.text_of
