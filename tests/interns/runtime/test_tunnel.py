"""What a signature of the way to another machine is of."""

from dataclasses import replace
from typing import Any
from uuid import uuid4

import pytest

from gateway.shared_cache import SharedCache, cache_key
from interns.runtime.tunnel import (
    SignedRequest,
    UsedSignatures,
    find_secret,
    is_proof,
    read_header,
    read_host,
    sign_answer,
)
from tests.support.valkey import ValkeyServer

REQUEST = SignedRequest("east", "POST", "/api/internal/interns/i/agent/turns", b"{}", 30)
NOW_S = 1_800_000_000.0


def holds(request: SignedRequest, header: str, now_s: float = NOW_S) -> bool:
    stated = read_header(header, now_s)
    if stated is None:
        return False
    return find_secret(replace(request, wait_s=stated.wait_s), stated) is not None


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
    former, later = settings.SECRET_KEY, "another secret of this gateway, as long as one has to be"
    proof = sign_answer(header, former)
    assert is_proof(proof, header)
    settings.SECRET_KEY = later
    assert not holds(REQUEST, header)
    assert not is_proof(proof, header)

    # Who knows the former secret as one answers whoever has not heard of the later one, by that.
    settings.SECRET_KEY_FALLBACKS = [former]
    stated = read_header(header, NOW_S)
    assert stated is not None
    assert find_secret(REQUEST, stated) == former
    assert holds(REQUEST, REQUEST.sign(NOW_S))


def test_a_request_holds_once(monkeypatch: pytest.MonkeyPatch) -> None:
    from interns.runtime import tunnel

    now = [0.0]
    used = UsedSignatures(lambda: now[0])
    # A process without a shared cache.
    monkeypatch.setattr(tunnel, "shared_cache", lambda: SharedCache("", timeout_s=1))
    assert [used.use(signature) for signature in ("a", "b", "a")] == [True, True, False]
    # It is kept until it would be too old, whichever clock was ahead.
    now[0] = 61.0
    assert not used.use("a")
    now[0] = 63.0
    assert used.use("a")
    # A small memory, so that nine signatures overflow it.
    monkeypatch.setattr(tunnel, "_USED_MAX", 3)
    assert [used.use(str(number)) for number in range(9)] == [True] * 9
    assert len(used._until) <= 3
    # What is remembered of names for ever is none of a signature's.
    names = cache_key.cache_info().currsize
    assert used.use("another")
    assert cache_key.cache_info().currsize == names


def test_a_request_holds_once_for_all_processes(
    valkey: ValkeyServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    from interns.runtime import tunnel

    store = SharedCache(valkey.url, timeout_s=5)
    # The store of this test, which no setting names.
    monkeypatch.setattr(tunnel, "shared_cache", lambda: store)
    signature = uuid4().hex
    assert UsedSignatures().use(signature)
    assert not UsedSignatures().use(signature)
    store.close()


def test_what_is_no_header_is_none() -> None:
    moment, number, wait_s, signature = REQUEST.sign(NOW_S).split(".")
    for header in (
        *("", "...", f"{moment}.a.{wait_s}.{signature}", f"{moment}.{number}.{wait_s}.é"),
        *(f"{'9' * 5000}.{number}.1.{signature}", f"{moment}.{number}.{'9' * 5000}.{signature}"),
    ):
        assert read_header(header, NOW_S) is None
    assert (read_host("east:8443"), read_host("[")) == ("east", "")
