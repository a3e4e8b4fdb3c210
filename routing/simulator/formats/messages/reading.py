"""Reads a messages request as far as the simulated model understands it, in the chat shape.

Every cache mark ends a beginning of the prompt that can be read again."""

from collections.abc import Iterable, Iterator

from routing.simulator.encoding import JsonObject, dumps
from routing.simulator.prompt import IMAGE_TOKENS, count_tokens, read_text

CHOICES = {"any": "required", "auto": "auto", "none": "none"}


def read_as_chat(body: JsonObject) -> JsonObject:
    shape = (body.get("output_config") or {}).get("format") or {}
    schema = {"type": "json_schema", "json_schema": {"schema": shape.get("schema")}}
    return {
        "model": body.get("model"),
        "messages": list(_read_messages(body)),
        "tools": [
            {
                "type": "function",
                "function": {"name": tool.get("name"), "parameters": tool["input_schema"]},
            }
            for tool in list_objects(body, "tools")
            if "input_schema" in tool
        ],
        "max_tokens": body.get("max_tokens"),
        "stop": body.get("stop_sequences"),
        "response_format": schema if shape.get("type") == "json_schema" else None,
        "thinks": (body.get("thinking") or {}).get("type") in ("enabled", "adaptive"),
        **_read_choice(body.get("tool_choice")),
    }


def list_objects(owner: JsonObject, name: str) -> list[JsonObject]:
    """The objects of a list; a string stands for one text block."""
    value = owner.get(name)
    if isinstance(value, str):
        return [{"type": "text", "text": value}]
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _read_messages(body: JsonObject) -> Iterator[JsonObject]:
    system = list_objects(body, "system")
    if system:
        yield {"role": "system", "content": list(read_parts(system))}
    for message in list_objects(body, "messages"):
        blocks = list_objects(message, "content")
        results = [block for block in blocks if block.get("type") == "tool_result"]
        for result in results:
            yield {"role": "tool", "content": list(read_parts(list_objects(result, "content")))}
        others = [block for block in blocks if block.get("type") != "tool_result"]
        if others or not results:
            yield {"role": message.get("role"), "content": list(read_parts(others))}


def read_parts(blocks: Iterable[JsonObject]) -> Iterator[JsonObject]:
    """Text and images; whatever else there is counts for nothing."""
    for block in blocks:
        if block.get("type") == "text":
            yield {"type": "text", "text": block.get("text")}
        elif block.get("type") == "image":
            yield {"type": "image_url"}


def _read_choice(choice: object) -> JsonObject:
    if not isinstance(choice, dict):
        return {}
    kind = choice.get("type")
    named = {"type": "function", "function": {"name": choice.get("name")}}
    return {
        "tool_choice": named if kind == "tool" else CHOICES.get(str(kind), "auto"),
        "parallel_tool_calls": choice.get("disable_parallel_tool_use") is not True,
    }


MARK = "cache_control"


def walk_blocks(body: JsonObject) -> Iterator[JsonObject]:
    """Everything that can bear a mark, in the order of the prompt, contents of results included."""
    yield from list_objects(body, "tools")
    yield from list_objects(body, "system")
    for message in list_objects(body, "messages"):
        for block in list_objects(message, "content"):
            if block.get("type") == "tool_result":
                yield from list_objects(block, "content")
            yield block


def list_prefixes(body: JsonObject) -> list[tuple[str, int]]:
    """The marked beginnings as (text, tokens), shortest first; a mark at the top marks all."""
    said, characters, images = "", 0, 0
    found: list[tuple[str, int]] = []
    for block in walk_blocks(body):
        said += dumps({name: value for name, value in block.items() if name != MARK})
        content = list(read_parts([block]))
        characters += len(read_text(content))
        images += sum(1 for part in content if part["type"] == "image_url")
        if block.get(MARK):
            found.append((said, count_tokens(characters) + images * IMAGE_TOKENS))
    if body.get(MARK):
        found.append((said, count_tokens(characters) + images * IMAGE_TOKENS))
    return found
