"""What a signature of the way to another machine is of."""

from dataclasses import replace
from typing import Any

import pytest

from interns.runtime.tunnel import SignedRequest, is_signed, read_header, read_host, sign_answer

REQUEST = SignedRequest("east", "POST", "/api/internal/interns/i/agent/turns", b"{}", 30)
NOW_S = 1_800_000_000.0


def holds(request: SignedRequest, header: str, now_s: float = NOW_S) -> bool:
    stated = read_header(header, now_s)
    return stated is not None and is_signed(replace(request, wait_s=stated.wait_s), stated)


@pytest.mark.parametrize("after_s", [-31, -29, 0, 29, 31])
def test_a_request_holds_for_half_a_minute(after_s: int) -> None:
    assert holds(REQUEST, REQUEST.sign(NOW_S), NOW_S + after_s) == (abs(after_s) < 30)


@pytest.mark.parametrize(
    "change",
    [
        {"host": "west"},
        {"method": "GET"},
        {"path": "/api/internal/interns/j/agent/turns"},
        {"body": b"{ }"},
    ],
)
def test_nothing_of_it_can_be_changed(change: dict[str, Any]) -> None:
    assert not holds(replace(REQUEST, **change), REQUEST.sign(NOW_S))


def test_neither_another_wait_nor_another_secret_holds(settings: Any) -> None:
    header = REQUEST.sign(NOW_S)
    moment, number, _, signature = header.split(".")
    assert not holds(REQUEST, f"{moment}.{number}.9.{signature}")
    proof = sign_answer(header)
    settings.SECRET_KEY = "another secret of this gateway, as long as one has to be"
    assert not holds(REQUEST, header)
    assert sign_answer(header) != proof


def test_what_is_no_header_is_none() -> None:
    moment, number, wait_s, signature = REQUEST.sign(NOW_S).split(".")
    for header in (
        *("", "...", f"{moment}.a.{wait_s}.{signature}", f"{moment}.{number}.{wait_s}.é"),
        *(f"{'9' * 5000}.{number}.1.{signature}", f"{moment}.{number}.{'9' * 5000}.{signature}"),
    ):
        assert read_header(header, NOW_S) is None
    assert (read_host("east:8443"), read_host("[")) == ("east", "")
