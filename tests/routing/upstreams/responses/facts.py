"""What a conversation says, as a flat list: read off chat messages, and off the items made of them.

Both readings leave out what the direction is known to lose:
- the author's name of a message is part of its text,
- assistant messages keep text only: other parts of their content, images and audio are dropped,
- plain `reasoning` text, and details that no upstream of this wire wrote, go,
- so do summaries whose item has neither its text nor its sealed content, and reasoning that led to
  nothing,
- annotations that cite no URL, cache marks on anything but text and every mark's lifetime go,
- a tool result's `is_error` and an answer's `model` go,
- an empty text of an answer and an empty refusal are none.
"""

from typing import Any

Fact = tuple[Any, ...]
_ANSWERS = ("reasoned", "said", "refused", "call")
_OWN = "-responses-v1"


def facts_of_messages(messages: list[dict[str, Any]]) -> list[Fact]:
    facts: list[Fact] = []
    for message in messages:
        if message["role"] == "assistant":
            facts += _answer_facts(message)
        elif message["role"] == "tool":
            facts.append(("result", message["tool_call_id"], *_chat_parts(message["content"])))
        else:
            content = _named(message["content"], message.get("name"))
            facts.append((message["role"], *_chat_parts(content)))
    kept = _led_on(_opened(facts))
    return kept if any(fact[0] != "instructions" for fact in kept) else [*kept, ("said", "")]


def _led_on(facts: list[Fact]) -> list[Fact]:
    """Reasoning is followed by more of it or by what it led to."""
    kept: list[Fact] = []
    for fact in reversed(facts):
        if fact[0] != "reasoned" or (kept and kept[-1][0] in _ANSWERS):
            kept.append(fact)
    return kept[::-1]


def _opened(facts: list[Fact]) -> list[Fact]:
    """Who gives the opening instructions, system or developer, is not told apart."""
    first = facts[0]
    if first[0] in ("system", "developer") and len(facts) > 1 and len(first) == 2:
        kind, *rest = first[1]
        if kind == "text" and rest[0] and not rest[1]:
            return [("instructions", first[1]), *facts[1:]]
    return facts


def _named(content: Any, name: str | None) -> Any:
    if not name:
        return content
    if isinstance(content, str):
        return f"{name}: {content}"
    return [{"type": "text", "text": f"{name}: "}, *content]


def _chat_parts(content: Any) -> list[Fact]:
    if isinstance(content, str):
        return [("text", content, False)]
    return [_chat_part(part) for part in content] or [("text", "", False)]


def _chat_part(part: dict[str, Any]) -> Fact:
    match part["type"]:
        case "text":
            return ("text", part["text"], "cache_control" in part)
        case "image_url":
            image = part["image_url"]
            return ("image", image["url"], image.get("detail", "auto"))
        case "input_audio":
            return ("audio", part["input_audio"]["data"], part["input_audio"]["format"])
        case "file":
            file = part["file"]
            return ("file", file.get("file_data"), file.get("file_id"), file.get("filename"))
        case _:
            return ("video", part["video_url"]["url"])


def _answer_facts(message: dict[str, Any]) -> list[Fact]:
    facts = _reasoned(message.get("reasoning_details") or [])
    content, name = message.get("content") or "", message.get("name")
    if name:
        texts = [f"{name}: {content}"] if isinstance(content, str) else [f"{name}: "]
    else:
        texts = [content] if isinstance(content, str) else []
    if isinstance(content, list):
        texts += [part["text"] for part in content if part["type"] == "text"]
    said = [text for text in texts if text]
    facts += [("said", text) for text in said]
    if said:
        facts += [
            ("cited", annotation["url_citation"]["url"])
            for annotation in message.get("annotations") or ()
            if annotation["type"] == "url_citation"
        ]
    if message.get("refusal"):
        facts.append(("refused", message["refusal"]))
    for call in message.get("tool_calls") or ():
        facts.append(("call", call["id"], call["function"]["name"], call["function"]["arguments"]))
    return facts or [("said", "")]


def _reasoned(details: list[dict[str, Any]]) -> list[Fact]:
    items: dict[str, dict[str, list[str]]] = {}
    for detail in details:
        kind = detail["type"].removeprefix("reasoning.")
        if not str(detail.get("format")).endswith(_OWN) or kind == "new":
            continue
        item = items.setdefault(detail["id"], {"summary": [], "text": [], "encrypted": []})
        text = detail["data"] if kind == "encrypted" else detail[kind]
        if detail.get("continues"):
            item[kind][-1] += text
        else:
            item[kind].append(text)
    return [
        (
            "reasoned",
            id,
            *(tuple(item[kind]) for kind in ("summary", "text", "encrypted")),
        )
        for id, item in items.items()
        if item["text"] or item["encrypted"]
    ]


def facts_of_items(body: dict[str, Any]) -> list[Fact]:
    facts: list[Fact] = []
    if "instructions" in body:
        facts.append(("instructions", ("text", body["instructions"], False)))
    for item in body["input"]:
        match item["type"]:
            case "message" if item["role"] == "assistant":
                facts += _answered(item["content"])
            case "message":
                facts.append((item["role"], *_item_parts(item["content"])))
            case "function_call":
                facts.append(("call", item["call_id"], item["name"], item["arguments"]))
            case "function_call_output":
                facts.append(("result", item["call_id"], *_item_parts(item["output"])))
            case "reasoning":
                facts.append(_reasoning_item(item))
    return facts


def _item_parts(content: Any) -> list[Fact]:
    if isinstance(content, str):
        return [("text", content, False)]
    return [_item_part(part) for part in content]


def _item_part(part: dict[str, Any]) -> Fact:
    match part["type"]:
        case "input_text":
            return ("text", part["text"], "prompt_cache_breakpoint" in part)
        case "input_image":
            return ("image", part["image_url"], part["detail"])
        case "input_audio":
            return ("audio", part["input_audio"]["data"], part["input_audio"]["format"])
        case "input_file":
            data = part.get("file_data", part.get("file_url"))
            return ("file", data, part.get("file_id"), part.get("filename"))
        case _:
            return ("video", part["video_url"])


def _answered(parts: str | list[dict[str, Any]]) -> list[Fact]:
    if isinstance(parts, str):
        return [("said", parts)]
    said = [("said", part["text"]) for part in parts if part["type"] == "output_text"]
    cited = [("cited", note["url"]) for part in parts for note in part.get("annotations", ())]
    refused = [("refused", part["refusal"]) for part in parts if part["type"] == "refusal"]
    return [*said, *cited, *refused]


def _reasoning_item(item: dict[str, Any]) -> Fact:
    sealed = item.get("encrypted_content")
    return (
        "reasoned",
        item.get("id"),
        tuple(part["text"] for part in item["summary"]),
        tuple(part["text"] for part in item.get("content", ())),
        () if sealed is None else (sealed,),
    )
