"""Writing an answer as one response."""

from typing import Any

from routing.simulator.seal import sealed
from routing.simulator.wire import Answer

FAILURE = "Simulated failure of the model."
ECHOED: dict[str, Any] = {
    "instructions": None,
    "max_output_tokens": None,
    "metadata": {},
    "parallel_tool_calls": True,
    "previous_response_id": None,
    "reasoning": {"effort": None, "summary": None},
    "store": True,
    "temperature": 1.0,
    "text": {"format": {"type": "text"}},
    "tool_choice": "auto",
    "tools": [],
    "top_p": 1.0,
    "truncation": "disabled",
}


def response(body: dict[str, Any], answer: Answer) -> dict[str, Any]:
    """The finished response. A usage of None is left out."""
    said = usage(answer.usage)
    return {
        **started(body, answer),
        **ending(answer),
        "output": output(body, answer),
        **({} if said is None else {"usage": said}),
    }


def started(body: dict[str, Any], answer: Answer) -> dict[str, Any]:
    """The response before anything was said."""
    tier = answer.service_tier
    return {
        "id": f"resp_{stem(answer)}",
        "object": "response",
        "created_at": answer.created,
        "status": "in_progress",
        "background": False,
        "error": None,
        "incomplete_details": None,
        "model": answer.model,
        "output": [],
        **{name: body.get(name, default) for name, default in ECHOED.items()},
        "service_tier": "default" if tier is None else tier,
        "usage": None,
    }


def stem(answer: Answer) -> str:
    return answer.id.rpartition("-")[2]


def ending(answer: Answer) -> dict[str, Any]:
    """Status, error and what is missing."""
    reason = answer.finish_reason
    if reason == "error":
        return {"status": "failed", "error": {"code": "server_error", "message": FAILURE}}
    if reason in ("length", "content_filter"):
        why = "max_output_tokens" if reason == "length" else "content_filter"
        return {"status": "incomplete", "incomplete_details": {"reason": why}}
    return {"status": "completed" if reason else "incomplete"}


def failed(body: dict[str, Any], answer: Answer, message: str) -> dict[str, Any]:
    """A response that failed with nothing said."""
    error = {"code": "server_error", "message": message}
    return {**started(body, answer), "status": "failed", "error": error}


def output(body: dict[str, Any], answer: Answer) -> list[dict[str, Any]]:
    """The items: what was thought, what was said, which tools are called."""
    items = []
    if answer.text("reasoning") or answer.redacted is not None:
        items.append(reasoning(body, answer))
    if answer.text("content") or answer.text("refusal"):
        items.append(message(answer, parts(answer), "completed"))
    items += [
        function_call(answer, index, answer.text("tool", index), "completed")
        for index in range(len(answer.calls))
    ]
    return items


def reasoning(body: dict[str, Any], answer: Answer) -> dict[str, Any]:
    """What was thought, as far as the request wants to see it."""
    thought = answer.text("reasoning")
    item: dict[str, Any] = {"id": f"rs_{stem(answer)}", "type": "reasoning", "summary": []}
    if shows_text(body):
        item["content"] = [{"type": "reasoning_text", "text": thought}]
    elif thought and shows_summary(body):
        item["summary"] = [{"type": "summary_text", "text": thought}]
    if wants_encrypted(body):
        item["encrypted_content"] = sealed(answer.redacted or thought)
    return item


def shows_text(body: dict[str, Any]) -> bool:
    """Models with open weights show their thoughts as they are."""
    return "open-reason" in str(body.get("model"))


def shows_summary(body: dict[str, Any]) -> bool:
    return (body.get("reasoning") or {}).get("summary") is not None


def wants_encrypted(body: dict[str, Any]) -> bool:
    return "reasoning.encrypted_content" in (body.get("include") or [])


def parts(answer: Answer) -> list[dict[str, Any]]:
    refusal, text = answer.text("refusal"), answer.text("content")
    said = [{"type": "refusal", "refusal": refusal}] if refusal else []
    return [*said, text_part(text)] if text else said


def text_part(text: str) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def message(answer: Answer, content: list[dict[str, Any]], status: str) -> dict[str, Any]:
    return {
        "id": f"msg_{stem(answer)}",
        "type": "message",
        "role": "assistant",
        "status": status,
        "content": content,
    }


def function_call(answer: Answer, index: int, arguments: str, status: str) -> dict[str, Any]:
    call = answer.calls[index]
    return {
        "id": f"fc_{stem(answer)}_{index}",
        "type": "function_call",
        "status": status,
        "call_id": call.id,
        "name": call.name,
        "arguments": arguments,
    }


def usage(said: Any) -> Any:
    """The chat format's usage in this format's words. What is no such usage stays as it is."""
    if not isinstance(said, dict) or "prompt_tokens" not in said:
        return said
    details = said.get("prompt_tokens_details") or {}
    thought = (said.get("completion_tokens_details") or {}).get("reasoning_tokens", 0)
    read = {"cached_tokens": details.get("cached_tokens", 0)}
    if "cache_write_tokens" in details:
        read["cache_write_tokens"] = details["cache_write_tokens"]
    return {
        "input_tokens": said["prompt_tokens"],
        "input_tokens_details": read,
        "output_tokens": said.get("completion_tokens"),
        "output_tokens_details": {"reasoning_tokens": thought},
        "total_tokens": said.get("total_tokens"),
    }
