"""What tests do at a desk: begin a call that can be dropped, and look into the books."""

from typing import Any

from routing.simulator.testing import RawConnection
from tests.conformance.desk import Desk, open_stream

FINISH = {"json": {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}}


def stream_end(prompt_tokens: int, completion_tokens: int) -> list[Any]:
    """The last steps of a stream's script."""
    usage = {"prompt_tokens": prompt_tokens, "completion_tokens": completion_tokens}
    return [FINISH, {"json": {"choices": [], "usage": usage}}, "[DONE]"]


def begin(desk: Desk, *, model: str = "", stream: bool = True) -> RawConnection:
    """A chat request on a connection that the test can drop."""
    return open_stream(desk, model=model or desk.model, stream=stream)


def read_answer(desk: Desk, *, stream: bool, **body: Any) -> Any:
    """Who answered and what it cost: the answer, or the usage chunk of a stream."""
    return desk.stream(**body).chunks[-1] if stream else desk.ok(**body)


def attempts(desk: Desk, generation_id: str) -> list[tuple[str, int]]:
    """Provider and status of each attempt, as the record tells them."""
    tried = desk.generation(generation_id)["provider_responses"]
    return [(each["provider_name"], each["status"]) for each in tried]


def open_holds(desk: Desk) -> int:
    count: int = desk.server.manage("audit_ledger")["open_holds"]
    return count
