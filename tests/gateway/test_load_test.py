"""`load_test` against a gateway that answers, refuses and breaks off."""

import json
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from tests.support.receiver import Receiver, serve_receiver


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GATEWAY_API_KEY", "sk-gw-test")


def load(site: Receiver, *arguments: str) -> tuple[int, dict[str, Any]]:
    out, status = StringIO(), 0
    words = ("--url", f"{site.url}/api/v1/", "--model", "m", *arguments)
    try:
        call_command("load_test", "--json", *words, stdout=out)
    except SystemExit as end:
        status = int(str(end.code))
    return status, json.loads(out.getvalue())


def test_each_number_of_callers_is_counted_and_asks_with_the_key() -> None:
    with serve_receiver() as site:
        status, said = load(site, "--connections", "1,3", "--seconds", "0.3", "--streams", "5")

    assert status == 0
    assert [each["callers"] for each in (*said["rounds"], said["streams"])] == [1, 3, 5]
    counts = [each["outcomes"]["200"] for each in (*said["rounds"], said["streams"])]
    assert (sum(counts), counts[-1]) == (len(site.received), 5)
    assert all(each["p50_ms"] <= each["p99_ms"] for each in said["rounds"])
    assert {(each.path, each.headers["authorization"]) for each in site.received} == {
        ("/api/v1/chat/completions", "Bearer sk-gw-test")
    }
    assert [each.json.get("stream", False) for each in site.received].count(True) == 5


def test_refusals_are_told_apart_and_end_it_with_1() -> None:
    with serve_receiver() as site:
        site.statuses = [503, 429, 503]
        status, said = load(site, "--connections", "1", "--seconds", "0.3")

    (only,) = said["rounds"]
    assert (status, only["failed"]) == (1, 3)
    assert (only["outcomes"]["503"], only["outcomes"]["429"]) == (2, 1)


def test_nobody_there_is_a_failure_and_no_time() -> None:
    with serve_receiver() as site:
        gone = site
    status, said = load(gone, "--connections", "2", "--seconds", "0.1")

    (only,) = said["rounds"]
    assert (status, only["p50_ms"], only["answers_per_s"]) == (1, None, 0)
    assert set(only["outcomes"]) == {"ConnectionRefusedError"}


@pytest.mark.parametrize(
    ("words", "fault"),
    [
        (("--url", "ftp://here/api"), "--url is no address"),
        (("--url", "http://here/api", "--connections", "1,x"), "numbers with commas"),
        (("--url", "http://here/api", "--connections", "0"), "between 1 and 1,000"),
        (("--url", "http://here/api", "--key-file", "/nowhere/key"), "cannot be read"),
        (("--url", "http://here/api", "--seconds", "0"), "more than 0"),
    ],
)
def test_odd_arguments_are_refused_in_words(words: tuple[str, ...], fault: str) -> None:
    with pytest.raises(CommandError, match=fault):
        call_command("load_test", "--json", "--model", "m", *words, stdout=StringIO())
