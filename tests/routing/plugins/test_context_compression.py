"""Requests made to fit, beside the event loop."""

from collections.abc import Callable
from typing import Any

import pytest

from routing.formats.chat.request import ChatRequest, parse_chat
from routing.plugins import context_compression, middle_out
from routing.plugins.context_compression import compressed
from tests.routing.selection.entries import endpoint


def request(messages: int) -> ChatRequest:
    talk = [{"role": "user", "content": "x" * 100} for _ in range(messages)]
    return parse_chat({"model": "m", "messages": talk}, session_header=None)


def test_messages_are_measured_once_and_beside_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    is_beside, measured = False, []

    def beside(work: Callable[[], Any], **_: Any) -> Any:
        nonlocal is_beside
        is_beside = True
        try:
            return work()
        finally:
            is_beside = False

    def sizes_of(messages: list[dict[str, Any]]) -> list[int]:
        measured.append(is_beside)
        return middle_out.sizes_of(messages)

    monkeypatch.setattr(context_compression, "beside_the_loop", beside)
    monkeypatch.setattr(context_compression, "sizes_of", sizes_of)
    made = compressed(request(500), [endpoint(context_length=1_000)], None)

    assert made is not None
    assert 0 < made.chat.message_count < 500
    assert measured == [True]


def test_nothing_is_done_where_no_endpoint_may_compress(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(context_compression, "beside_the_loop")
    assert compressed(request(500), [endpoint(context_length=100_000)], None) is None
