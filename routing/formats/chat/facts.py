"""What pricing and routing need to know about the messages, read in one pass."""

from dataclasses import dataclass, field
from typing import Final

from gateway.http.jsonio import JsonObject, dumps

_ENCODED_AT_ONCE_CHARS = 65_536

# Input modality by content-part type.
MODALITIES: Final = {
    "image_url": "image",
    "input_audio": "audio",
    "video_url": "video",
    "input_video": "video",
    "file": "file",
}
_ASSISTANT_TEXTS = ("reasoning", "reasoning_content", "refusal")


@dataclass(slots=True)
class PromptFacts:
    """`texts` are the caller's own string objects; nothing is copied. `json_bytes` is the size of
    what travels as JSON. `orphans` are the indexes of tool messages that answer no earlier call.
    `calls_functions` where calls or results are written as before there were tools."""

    texts: list[str] = field(default_factory=list)
    json_bytes: int = 0
    modalities: set[str] = field(default_factory=set)
    media_parts: int = 0
    image_parts: int = 0
    orphans: list[int] = field(default_factory=list)
    calls_functions: bool = False

    @property
    def text_chars(self) -> int:
        return sum(map(len, self.texts)) + self.json_bytes

    @property
    def text_bytes(self) -> int:
        return sum(map(utf8_bytes, self.texts)) + self.json_bytes


def read_prompt(messages: list[JsonObject]) -> PromptFacts:
    """Facts of a checked message list."""
    facts = PromptFacts()
    texts = facts.texts
    called: set[str] = set()
    for index, message in enumerate(messages):
        content = message.get("content")
        if type(content) is str:
            texts.append(content)
        elif content:
            _read_parts(content, facts)
        role = message["role"]
        if role == "assistant":
            for call in message.get("tool_calls") or ():
                called.add(call["id"])
                function = call["function"]
                facts.texts += (function["name"], function["arguments"])
            if "function_call" in message:
                facts.calls_functions = True
            for key in _ASSISTANT_TEXTS:
                if text := message.get(key):
                    facts.texts.append(text)
            if details := message.get("reasoning_details"):
                facts.json_bytes += len(dumps(details))
            if images := message.get("images"):
                _read_parts(images, facts)
        elif role == "tool" and message["tool_call_id"] not in called:
            facts.orphans.append(index)
        elif role == "function":
            facts.calls_functions = True
        # A tool message has no name by its format, so anything may stand there.
        if isinstance(name := message.get("name"), str):
            texts.append(name)
    return facts


def _read_parts(parts: list[JsonObject], facts: PromptFacts) -> None:
    for part in parts:
        kind = part["type"]
        if kind == "text":
            facts.texts.append(part["text"])
        else:
            facts.media_parts += 1
            facts.image_parts += kind == "image_url"
            facts.modalities.add(MODALITIES[kind])


def utf8_bytes(text: str) -> int:
    """Length in UTF-8; a long text is measured in pieces rather than copied whole."""
    if text.isascii():
        return len(text)
    return sum(
        len(text[start : start + _ENCODED_AT_ONCE_CHARS].encode("utf-8", "surrogatepass"))
        for start in range(0, len(text), _ENCODED_AT_ONCE_CHARS)
    )
