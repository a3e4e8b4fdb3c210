"""Pages are taken apart in processes that have little to lose."""

import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from routing.fetching import pages
from routing.fetching.pages import Unreadable, read_page
from tests.support.promptness import in_time
from tests.support.web_site import PAGE


@pytest.fixture(autouse=True)
def readers() -> Iterator[None]:
    pages.end_readers()
    yield
    pages.end_readers()


def read(page: str | bytes = PAGE, **limits: Any) -> pages.Page:
    raw = page.encode() if isinstance(page, str) else page
    told = {"charset": "utf-8", "url": "https://a.example/x", "timeout_s": 60.0}
    return read_page(raw, **{**told, "chars_max": 100_000, **limits})


def idle_pid() -> int:
    (reader,) = pages._readers._idle
    return reader._process.pid


def is_there(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


def test_one_process_reads_page_after_page_and_knows_nothing() -> None:
    assert read().title == "On cats"
    first = idle_pid()
    assert "Paragraph 3" in read().text
    assert idle_pid() == first
    environment = Path(f"/proc/{first}/environ").read_bytes()
    assert environment == b"LANG=C.UTF-8\0"
    files = [str(link.readlink()) for link in Path(f"/proc/{first}/fd").iterdir()]
    assert all(name == "/dev/null" or name.startswith("socket:") for name in files)


def test_no_more_of_a_text_is_told_than_is_wanted() -> None:
    whole = read("<html><body><p>" + "\U0001f600\u0436 " * 50 + "</p></body></html>")
    assert (len(whole.text), whole.is_cut) == (149, False)
    for chars_max in (149, 148):
        again = read(f"<html><body><p>{whole.text}</p></body></html>", chars_max=chars_max)
        assert (again.text, again.is_cut) == (whole.text[:chars_max], chars_max < 149)


def test_a_process_is_ended_after_many_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "PAGES_PER_READER", 1)
    read()
    assert pages._readers._idle == []


def test_one_that_takes_too_long_is_killed_and_the_next_page_is_read() -> None:
    read()
    pid = idle_pid()
    began = time.monotonic()
    with pytest.raises(Unreadable):
        read("<html><body><p>" + "a<br>" * 200_000 + "</p></body></html>", timeout_s=0.1)
    in_time(time.monotonic() - began, 2)
    assert not is_there(pid)
    assert read().title == "On cats"


def test_a_line_that_does_not_block_is_read_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """As sockets under gevent are."""
    made = socket.socketpair

    def not_blocking() -> tuple[socket.socket, socket.socket]:
        ours, theirs = made()
        theirs.setblocking(False)
        return ours, theirs

    monkeypatch.setattr(socket, "socketpair", not_blocking)
    read()
    first = idle_pid()
    assert read().title == "On cats"
    assert idle_pid() == first


def test_one_that_dies_is_replaced() -> None:
    read()
    pages._readers._idle[0]._process.kill()
    with pytest.raises(Unreadable):
        read()
    assert read().title == "On cats"


def test_waiting_for_a_reader_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages._readers, "_free", threading.Semaphore(0))
    with pytest.raises(Unreadable):
        read(timeout_s=0.05)


@pytest.mark.parametrize(
    "page",
    [
        b"",
        b"\xff\xfe\x00",
        b"no markup",
        b"<" * 10_000,
        b"<html>" + b"<div>" * 20_000 + b"deep",
        b"<html><body>" + b"<ul><li>" * 5_000 + b"listed",
        b'<!DOCTYPE a [<!ENTITY x SYSTEM "file:///etc/passwd">]><html><body>&x;</body></html>',
    ],
)
def test_odd_pages_break_nothing(page: bytes) -> None:
    said = read(page)
    assert "root:" not in said.text
    assert read().title == "On cats"
