"""A caller of responses."""

from typing import Any

from tests.support.speakers.base import Call, Counts, Said, Speaker, Streamed, nano, plain

FINISHES = {"max_output_tokens": "length", "content_filter": "content_filter"}
TERMINAL = ("response.completed", "response.incomplete", "response.failed")


class Responses(Speaker):
    name = "responses"
    path = "/api/v1/responses"
    keep_alive = b": ROUTER PROCESSING\n\n"

    def body(self, model: str, history: list[dict[str, Any]], **options: Any) -> dict[str, Any]:
        given: dict[str, Any] = {"model": model, "input": history, "store": False}
        if "tools" in options:
            given["tools"] = [{"type": "function", **tool} for tool in options.pop("tools")]
        if "schema" in options:
            shape = {"type": "json_schema", "name": "wanted", "strict": True}
            given["text"] = {"format": {**shape, "schema": options.pop("schema")}}
        if "effort" in options:
            given["reasoning"] = {"effort": options.pop("effort"), "summary": "auto"}
            given["include"] = ["reasoning.encrypted_content"]
        names = {"choice": "tool_choice", "cap": "max_output_tokens", "system": "instructions"}
        return given | {names.get(name, name): value for name, value in options.items()}

    def user(self, text: str, *, image_url: str | None = None) -> list[dict[str, Any]]:
        if image_url is None:
            return [{"role": "user", "content": text}]
        image = {"type": "input_image", "image_url": image_url, "detail": "auto"}
        return [{"role": "user", "content": [{"type": "input_text", "text": text}, image]}]

    def results(self, outputs: dict[str, str]) -> list[dict[str, Any]]:
        return [
            {"type": "function_call_output", "call_id": call_id, "output": text}
            for call_id, text in outputs.items()
        ]

    def read_answer(self, answer: Any) -> Said:
        assert answer["object"] == "response"
        return _read_answer(answer)

    def read_events(self, streamed: Streamed) -> Said:
        numbers = [value["sequence_number"] for value in streamed.values]
        assert numbers == list(range(len(numbers)))
        name, last = streamed.events[-1]
        assert name in TERMINAL, streamed.events[-1]
        said = _read_answer(last["response"])
        deltas = [value for event, value in streamed.events if event.endswith("text.delta")]
        spoken = [v["delta"] for v in deltas if v["type"] == "response.output_text.delta"]
        if said.failure is None:
            assert "".join(spoken) == said.text
        said.text = "".join(spoken)
        _check_arguments(streamed, said)
        return said


def _check_arguments(streamed: Streamed, said: Said) -> None:
    """Fragments, put together by item, are the arguments of the finished items."""
    fragments: dict[str, str] = {}
    for name, value in streamed.events:
        if name == "response.function_call_arguments.delta":
            fragments[value["item_id"]] = fragments.get(value["item_id"], "") + value["delta"]
    if said.failure is None:
        assert list(fragments.values()) == [call.arguments for call in said.calls]


def _read_answer(answer: Any) -> Said:
    items = answer["output"]
    parts = [part for item in items if item["type"] == "message" for part in item["content"]]
    thoughts = [item for item in items if item["type"] == "reasoning"]
    shown = [part["text"] for item in thoughts for part in item["summary"]]
    shown += [part["text"] for item in thoughts for part in item.get("content") or []]
    calls = [
        Call(item["call_id"], item["name"], item["arguments"])
        for item in items
        if item["type"] == "function_call"
    ]
    usage = answer.get("usage")
    return Said(
        text="".join(part["text"] for part in parts if part["type"] == "output_text"),
        reasoning="".join(shown),
        calls=calls,
        finish=_finish(answer, calls),
        usage=None if usage is None else _counts(usage),
        cost_nano=None if usage is None else nano(usage["cost"]),
        native=plain(items),
        failure=answer["error"],
        model=answer["model"],
        provider=None,
    )


def _finish(answer: Any, calls: list[Call]) -> str | None:
    if answer["status"] == "incomplete":
        return FINISHES[answer["incomplete_details"]["reason"]]
    if answer["status"] == "failed":
        return "error"
    return "tool_calls" if calls else "stop"


def _counts(usage: dict[str, Any]) -> Counts:
    details = usage["input_tokens_details"]
    written = details.get("cache_write_tokens") or 0
    return Counts(usage["input_tokens"], usage["output_tokens"], details["cached_tokens"], written)
