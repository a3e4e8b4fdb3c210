"""A caller of chat completions."""

from typing import Any

from tests.support.speakers.base import Call, Counts, Said, Speaker, Streamed, nano, plain


def function(tool: dict[str, Any]) -> dict[str, Any]:
    return {"type": "function", "function": tool}


class Chat(Speaker):
    name = "chat"
    path = "/api/v1/chat/completions"
    keep_alive = b": ROUTER PROCESSING\n\n"

    def body(self, model: str, history: list[dict[str, Any]], **options: Any) -> dict[str, Any]:
        given: dict[str, Any] = {"model": model, "messages": history}
        if "system" in options:
            given["messages"] = [{"role": "system", "content": options.pop("system")}, *history]
        if "tools" in options:
            given["tools"] = [function(tool) for tool in options.pop("tools")]
        if "schema" in options:
            shape = {"name": "wanted", "strict": True, "schema": options.pop("schema")}
            given["response_format"] = {"type": "json_schema", "json_schema": shape}
        if "effort" in options:
            given["reasoning"] = {"effort": options.pop("effort")}
        names = {"choice": "tool_choice", "cap": "max_completion_tokens"}
        return given | {names.get(name, name): value for name, value in options.items()}

    def user(self, text: str, *, image_url: str | None = None) -> list[dict[str, Any]]:
        if image_url is None:
            return [{"role": "user", "content": text}]
        image = {"type": "image_url", "image_url": {"url": image_url}}
        return [{"role": "user", "content": [{"type": "text", "text": text}, image]}]

    def results(self, outputs: dict[str, str]) -> list[dict[str, Any]]:
        return [
            {"role": "tool", "tool_call_id": call_id, "content": text}
            for call_id, text in outputs.items()
        ]

    def read_answer(self, answer: Any) -> Said:
        (choice,) = answer["choices"]
        said = _read_answer(choice["message"], choice, answer.get("usage"))
        said.failure = choice.get("error")
        said.model, said.provider = answer["model"], answer["provider"]
        return said

    def read_events(self, streamed: Streamed) -> Said:
        chunks = [value for value in streamed.values if value["choices"]]
        message: dict[str, Any] = {"role": "assistant", "content": ""}
        for chunk in chunks:
            _add(message, chunk["choices"][0]["delta"])
        last = chunks[-1]
        choices = [chunk["choices"][0] for chunk in chunks]
        # The reason is told once.
        (ended,) = (choice for choice in choices if choice["finish_reason"] is not None)
        said = _read_answer(message, ended, last.get("usage"))
        said.failure = last.get("error")
        said.model, said.provider = last["model"], last["provider"]
        return said


def _read_answer(message: dict[str, Any], choice: dict[str, Any], usage: Any) -> Said:
    calls = [
        Call(call["id"], call["function"]["name"], call["function"]["arguments"])
        for call in message.get("tool_calls") or []
    ]
    return Said(
        text=message.get("content") or "",
        reasoning=message.get("reasoning") or "",
        calls=calls,
        finish=choice["finish_reason"],
        usage=None if usage is None else _counts(usage),
        cost_nano=None if usage is None else nano(usage["cost"]),
        native=[plain(message)],
    )


def _counts(usage: dict[str, Any]) -> Counts:
    details = usage.get("prompt_tokens_details") or {}
    return Counts(
        usage["prompt_tokens"],
        usage["completion_tokens"],
        details.get("cached_tokens") or 0,
        details.get("cache_write_tokens") or 0,
    )


def _add(message: dict[str, Any], delta: dict[str, Any]) -> None:
    for name in ("content", "reasoning", "refusal"):
        if delta.get(name):
            message[name] = (message.get(name) or "") + delta[name]
    for fragment in delta.get("tool_calls") or []:
        calls = message.setdefault("tool_calls", [])
        if fragment["index"] == len(calls):
            called = {"name": fragment["function"]["name"], "arguments": ""}
            calls.append({"id": fragment["id"], "type": "function", "function": called})
        calls[fragment["index"]]["function"]["arguments"] += fragment["function"]["arguments"]
    if delta.get("annotations"):
        message.setdefault("annotations", []).extend(delta["annotations"])
    for detail in delta.get("reasoning_details") or []:
        _add_detail(message.setdefault("reasoning_details", []), detail)


def _add_detail(details: list[dict[str, Any]], piece: dict[str, Any]) -> None:
    """Pieces of one item share type, index and id."""
    mark = [piece.get(name) for name in ("type", "index", "id")]
    for detail in details:
        if [detail.get(name) for name in ("type", "index", "id")] == mark:
            for name, value in piece.items():
                grows = name in ("text", "summary", "data") and detail.get(name)
                if value is not None:
                    detail[name] = detail[name] + value if grows else value
            return
    details.append(dict(piece))
