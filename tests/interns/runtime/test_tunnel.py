"""What a signature of the way to another machine is of."""

from dataclasses import replace
from typing import Any

import pytest

from interns.runtime.tunnel import SignedRequest, is_signed, read_wait_s, sign_answer

REQUEST = SignedRequest("east", "POST", "/api/internal/interns/i/agent/turns", b"{}", 30)
NOW_S = 1_800_000_000.0


@pytest.mark.parametrize("after_s", [-29, 0, 29])
def test_a_request_holds_for_half_a_minute(after_s: int) -> None:
    header = REQUEST.sign(NOW_S)
    assert read_wait_s(header) == 30
    assert is_signed(REQUEST, header, NOW_S + after_s)


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
    assert not is_signed(replace(REQUEST, **change), REQUEST.sign(NOW_S), NOW_S)


def test_neither_an_old_one_nor_another_wait_nor_another_secret_holds(settings: Any) -> None:
    header = REQUEST.sign(NOW_S)
    moment, once, _, digest = header.split(".")
    assert not is_signed(REQUEST, header, NOW_S + 31)
    assert not is_signed(REQUEST, header, NOW_S - 31)
    assert not is_signed(replace(REQUEST, wait_s=9), f"{moment}.{once}.9.{digest}", NOW_S)
    proof = sign_answer(header)
    settings.SECRET_KEY = "another secret of this gateway, as long as one has to be"
    assert not is_signed(REQUEST, header, NOW_S)
    assert sign_answer(header) != proof
