"""What the simulated model understands of a chat request, and its prompt cache."""

import re
from collections import OrderedDict
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, NamedTuple

from routing.simulator.encoding import JsonObject

SAY_WORDS = re.compile(r"\bsay (\d{1,6}) words?\b", re.IGNORECASE)
# What an image counts for, whatever its size.
IMAGE_TOKENS = 85
# What a model of such a name calls where it can, and what it then says.
CLOCK = "clock"
CLOCK_TOOL = "datetime"
CALL_TOOL = re.compile(r"\bcall ([A-Za-z0-9_.-]+)")


@dataclass(slots=True)
class SimulatedPrompt:
    """`characters` counts all text; `user_text` is the last user message's text, `tool_text` the
    last tool's."""

    characters: int = 0
    images: int = 0
    user_text: str = ""
    tool_text: str = ""
    last_role: str = ""

    @property
    def tokens(self) -> int:
        """One for each four characters begun, never none, and 85 for each image."""
        return count_tokens(self.characters) + self.images * IMAGE_TOKENS


def count_tokens(characters: int) -> int:
    return max(1, -(-characters // 4))


def read_text(content: object) -> str:
    """The text of a message: a string, or the text parts of a list."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    parts = (part.get("text") for part in content if isinstance(part, dict))
    return "".join(part for part in parts if isinstance(part, str))


def read_prompt(messages: list[Any]) -> SimulatedPrompt:
    prompt = SimulatedPrompt()
    for message in messages:
        if not isinstance(message, dict):
            continue
        content = message.get("content")
        text = read_text(content)
        prompt.characters += len(text)
        for part in content if isinstance(content, list) else []:
            prompt.images += isinstance(part, dict) and part.get("type") == "image_url"
        prompt.last_role = str(message.get("role"))
        if prompt.last_role == "user":
            prompt.user_text = text
        elif prompt.last_role == "tool":
            prompt.tool_text = text
    return prompt


def read_word_count(user_text: str) -> int | None:
    """N of "say N words"."""
    found = SAY_WORDS.search(user_text)
    return int(found[1]) if found else None


def list_called_tools(body: JsonObject, prompt: SimulatedPrompt) -> list[JsonObject]:
    """The functions this request makes the model call, in order."""
    tools = list_functions(body)
    choice = body.get("tool_choice")
    if not tools or choice == "none":
        return []
    if isinstance(choice, dict):
        name = (choice.get("function") or choice).get("name")
        return [tool for tool in tools if tool.get("name") == name]
    asked = CALL_TOOL.findall(prompt.user_text) if prompt.last_role == "user" else []
    if is_clock(body) and prompt.last_role == "user":
        asked.append(CLOCK_TOOL)
    called = [tool for name in asked for tool in tools if tool.get("name") == name.rstrip(".")]
    if not called and choice == "required":
        called = tools[:1]
    return called[:1] if body.get("parallel_tool_calls") is False else called


def is_clock(body: JsonObject) -> bool:
    """Whether the model is one that tells the time, by its name."""
    return CLOCK in str(body.get("model"))


def list_functions(body: JsonObject) -> list[JsonObject]:
    tools = body.get("tools")
    if not isinstance(tools, list):
        return []
    found = (tool.get("function") for tool in tools if isinstance(tool, dict))
    return [function for function in found if isinstance(function, dict)]


def needs_reasoning(body: JsonObject) -> bool:
    """Models whose name contains "reason" think first, unless told not to.

    Formats with a rule of their own have said it in `thinks`.
    """
    if "thinks" in body:
        return body["thinks"] is True
    settings = body.get("reasoning")
    if not isinstance(settings, dict):
        settings = {}
    effort = settings.get("effort", body.get("reasoning_effort"))
    return (
        "reason" in str(body.get("model"))
        and effort != "none"
        and settings.get("enabled") is not False
    )


def read_token_limit(body: JsonObject) -> int | None:
    limit = body.get("max_completion_tokens", body.get("max_tokens"))
    return limit if isinstance(limit, int) else None


def list_stop_sequences(body: JsonObject) -> list[str]:
    stop = body.get("stop")
    listed = stop if isinstance(stop, list) else [stop]
    return [sequence for sequence in listed if isinstance(sequence, str) and sequence]


ENTRIES_MAX = 10_000


class CacheUse(NamedTuple):
    """Prompt tokens read from the cache and written to it."""

    read: int = 0
    written: int = 0


NO_CACHE = CacheUse()


class PromptCache:
    """Remembers beginnings of prompts, the newest 10,000, each provider its own."""

    def __init__(self) -> None:
        self._seen: OrderedDict[bytes, None] = OrderedDict()

    def use(self, persona: str, prefixes: list[tuple[str, int]]) -> CacheUse:
        """Look up marked beginnings, shortest first, as (text, tokens); all are then known.

        What is read is the longest one known, what is written the rest up to the longest given.
        """
        read = 0
        for text, tokens in prefixes:
            key = sha256(f"{persona}\0{text}".encode("utf-8", "replace")).digest()
            if key in self._seen:
                read = max(read, tokens)
            self._seen[key] = None
            self._seen.move_to_end(key)
            if len(self._seen) > ENTRIES_MAX:
                self._seen.popitem(last=False)
        longest = prefixes[-1][1] if prefixes else 0
        return CacheUse(read, longest - read)
