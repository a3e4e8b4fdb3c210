"""Answers of one generation, whole and streamed, and how they broke."""

import json
from typing import Any

from gateway.http.jsonio import dumps, usd
from routing.formats.caller import AnswerIdentity, CompleteAnswer, Ending
from routing.formats.responses.format import RESPONSES
from tests.routing.formats.responses.bodies import parse_fields

SERVED = AnswerIdentity("gen-1760000000-abc", 1_760_000_000, "acme/small", "Acme")
USAGE: dict[str, Any] = {
    "prompt_tokens": 5,
    "completion_tokens": 3,
    "total_tokens": 8,
    "prompt_tokens_details": {"cached_tokens": 1, "audio_tokens": 0, "video_tokens": 0},
    "completion_tokens_details": {"reasoning_tokens": 2, "audio_tokens": 0},
    "cost": usd(1_200),
    "cost_details": {
        "upstream_inference_cost": None,
        "upstream_inference_prompt_cost": usd(500),
        "upstream_inference_completions_cost": usd(700),
    },
    "is_byok": False,
}


def ending(finish: str = "stop", **changes: Any) -> Ending:
    return Ending(finish, finish, USAGE, None, None, None, None, None)._replace(**changes)


def stream(**fields: Any) -> Any:
    """A writer for a request with these fields."""
    return RESPONSES.writer(SERVED, parse_fields(**fields))


def write_answer(
    message: dict[str, Any], *, end: Ending | None = None, logprobs: Any = None, **fields: Any
) -> Any:
    """The answer as a caller would read it."""
    said = {"role": "assistant", "content": None, **message}
    answer = CompleteAnswer(SERVED, parse_fields(**fields), said, logprobs, None, end or ending())
    return plain(RESPONSES.write_answer(answer))


def plain(value: Any) -> Any:
    return json.loads(dumps(value))


def failure(error_type: str = "provider_unavailable", code: int = 502) -> dict[str, Any]:
    return {"code": code, "message": "broke", "metadata": {"error_type": error_type}}


def output_of(message: dict[str, Any]) -> list[dict[str, Any]]:
    output: list[dict[str, Any]] = write_answer(message)["output"]
    return output


def read(body: bytes, *, done: bool | None = None) -> list[dict[str, Any]]:
    """The events of a stream. Names agree, numbers leave no gap; `done` says whether the stream is
    to end with `[DONE]`."""
    assert body.endswith(b"\n\n") or not body
    blocks = body.split(b"\n\n")[:-1]
    if done is not None:
        assert (blocks[-1:] == [b"data: [DONE]"]) is done
    events = [_event(block) for block in blocks if block != b"data: [DONE]"]
    numbers = [event["sequence_number"] for event in events]
    assert numbers == list(range(numbers[0], numbers[0] + len(numbers))) if numbers else True
    return events


def _event(block: bytes) -> dict[str, Any]:
    name, data = block.split(b"\n")
    assert name.startswith(b"event: ")
    assert data.startswith(b"data: ")
    event: dict[str, Any] = json.loads(data[6:])
    assert event["type"] == name[7:].decode()
    return event
