"""The bench's own arithmetic. Nothing here measures anything."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.load import bench, conditions
from tests.load.accounting import ProcessReplaced, cpu_s_of, rss_bytes_of, spent_s
from tests.load.answers import check_governed
from tests.load.books import Books
from tests.load.decisions_part import Decided, Waited, check_decided, decisions_body
from tests.load.figures import (
    REQUIRED,
    Commits,
    Interval,
    Pair,
    figures,
    median_ratio,
    percentile,
)
from tests.load.generator import answer_bytes, request_bytes
from tests.load.generators import Load, LoadFailed, checked, parsed
from tests.load.history import PAGE, RECORD, Told
from tests.load.report import differences, regressions, table
from tests.load.samples import Memory, Samples, Selected, Single, Tools
from tests.load.selecting import Choosing
from tests.load.streams import EventReader
from tests.load.test_format_part import formats
from tests.load.toolless import Toolless, measured

STREAM = (
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    b'f\r\ndata: {"a": 1}\n\n\r\n1c\r\ndata: {"b": 2}\n\ndata: [DONE]\n\n\r\n0\r\n\r\n'
)


def interval(cpu_s: float, *, units: int = 1000) -> Interval:
    return Interval(units=units, seconds=1.0, cpu_s=cpu_s)


def samples(*, starts_s: tuple[float, ...] = (3.0,), no_start: str = "") -> Samples:
    pairs = [Pair(interval(1.6), interval(1.0))] * 3
    commits = Commits(requests=1000, raw=2100, seconds=10, idle_per_s=10)
    return Samples(
        memory=Memory(90_000_000, 100_000_000, 105_000_000, 0.05, 20_000),
        requests=pairs,
        rules=pairs,
        selection=[Selected(interval(0.6), Choosing(30.0, 33.0, 300.0))] * 3,
        single=[Single(governed_ms=2.3, ceiling_ms=0.5, direct_ms=0.2, commit_ms=0.6)],
        commits={1: commits, 64: commits},
        streams=pairs,
        formats=formats(pairs),
        decisions=Decided(
            [Waited(170.0, 190.0), Waited(171.0, 210.0), Waited(172.0, 200.0)], pairs
        ),
        tools=Tools(pairs, [Toolless(12.0)] * 3),
        history=Told(1_000_000, {RECORD: [3.0], PAGE: [8.0], "totals": [90.0, 80.0]}),
        starts_s=starts_s,
        no_start=no_start,
    )


def document(**values: float) -> dict[str, object]:
    lines = figures(values, {}, {})
    conditions = {
        "cores": 2,
        "load_generator": "wrk",
        "upstream": "nginx",
        "stream_upstream": "simulated upstream",
        "quick": False,
    }
    told = {line.required.name: line.as_json() for line in lines}
    return {"conditions": conditions, "figures": told}


@pytest.mark.parametrize(
    ("values", "percent", "found"),
    [([5.0], 50, 5.0), ([3.0, 1.0, 2.0], 50, 2.0), ([1.0, 2.0], 50, 1.0), ([1.0, 2.0], 99, 2.0)],
)
def test_a_percentile_is_one_of_the_values(
    values: list[float], percent: float, found: float
) -> None:
    assert percentile(values, percent) == found


def test_a_slow_minute_touches_both_sides_of_its_pair_only() -> None:
    pairs = [
        Pair(interval(1.5), interval(1.0)),
        Pair(interval(15.0), interval(10.0)),
        Pair(interval(9.0), interval(1.0)),
    ]

    assert median_ratio(pairs, lambda one: one.cpu_us_per_unit) == pytest.approx(1.5)


def test_commits_that_no_request_caused_are_taken_off() -> None:
    commits = Commits(requests=1000, raw=2100, seconds=10, idle_per_s=10)

    assert commits.per_request_raw == pytest.approx(2.1)
    assert commits.per_request == pytest.approx(2.0)


def test_the_bound_of_the_added_time_follows_the_measured_commit() -> None:
    one = Single(governed_ms=2.3, ceiling_ms=0.5, direct_ms=0.2, commit_ms=2.0)
    found = {line.required.name: line for line in Samples(single=[one]).figures()}

    assert found["added_p50_ms"].bound == pytest.approx(6.0)


def test_a_figure_without_a_bound_of_its_run_has_the_usual() -> None:
    found = {line.required.name: line for line in figures({}, {}, {"added_p50_ms": 7.0})}

    assert found["added_p50_ms"].bound == 7.0
    assert found["cpu_ratio"].bound == 1.8
    assert len(found) == len(REQUIRED)


def test_figures_come_from_the_samples() -> None:
    found = {line.required.name: line.value for line in samples().figures()}

    assert found["cpu_ratio"] == pytest.approx(1.6)
    assert found["rate_ratio"] == pytest.approx(1.0)
    assert found["selection_percent"] == pytest.approx(5)
    assert found["added_p50_ms"] == pytest.approx(2.1)
    assert found["commits_per_request_64"] == pytest.approx(2.0)
    assert found["worker_idle_mb"] == pytest.approx(90)
    assert found["decisions_ms"] == 200
    assert found["decisions_cpu_ratio"] == pytest.approx(1.6)
    assert found["tools_ratio"] == pytest.approx(1.6)
    assert found["toolless_percent"] == pytest.approx(1.2)
    assert found["history_record_ms"] == 3
    assert found["history_page_ms"] == 8
    assert found["history_query_ms"] == 90
    assert found["worker_growth_percent"] == pytest.approx(5)
    assert found["second_start_s"] == 3.0


def test_the_steps_of_tools_are_timed_where_there_are_none() -> None:
    (found,) = measured(1, 0.02)

    assert 0 < found.steps_us < 1000


def test_decisions_are_looked_at_before_they_are_counted() -> None:
    asked = json.loads(decisions_body())["questions"]
    told = {name: {"probabilities": {"a": 0.25, "b": 0.75}} for name in asked}
    one, *others = told

    check_decided({"answers": told})
    for wrong in (
        {name: told[name] for name in others},
        told | {one: {"probabilities": {"a": 1.1}}},
    ):
        with pytest.raises(LoadFailed):
            check_decided({"answers": wrong})


def test_a_figure_that_was_left_out_says_why() -> None:
    lines = samples(starts_s=(), no_start="skipped: there is no .venv").figures()

    assert lines[-1].value is None
    assert lines[-1].as_json()["met"] is None
    assert table(lines).splitlines()[-1].endswith("skipped: there is no .venv")


def test_one_part_alone_gives_its_own_lines() -> None:
    lines = Samples(requests=samples().requests).figures()

    assert [line.required.name for line in lines] == ["cpu_ratio", "rate_ratio"]


def test_the_table_shows_each_required_value_beside_the_figure() -> None:
    told = table(samples().figures()).splitlines()

    assert len(told) == 1 + len(REQUIRED)
    assert "1.60 x" in told[1]
    assert "<= 1.8 x" in told[1]
    assert ">= 0.5 x" in told[2]
    assert "yes" in told[1]
    missed = next(line for line in told if "64 connections" in line and "commits" in line)
    assert " no " in missed


@pytest.mark.parametrize(
    ("name", "before", "now", "is_worse"),
    [
        ("cpu_ratio", 1.0, 1.09, False),
        ("cpu_ratio", 1.0, 1.11, True),
        ("cpu_ratio", 1.0, 0.5, False),
        ("rate_ratio", 1.0, 0.91, False),
        ("rate_ratio", 1.0, 0.89, True),
        ("rate_ratio", 1.0, 2.0, False),
        ("second_start_s", 1.0, 3.0, False),
    ],
)
def test_a_ratio_may_get_worse_by_a_tenth(
    name: str, before: float, now: float, is_worse: bool
) -> None:
    assert bool(regressions(document(**{name: before}), document(**{name: now}))) is is_worse


def test_a_figure_that_one_run_lacks_is_no_regression() -> None:
    assert regressions(document(), document(cpu_ratio=9.0)) == []
    assert regressions({}, document(cpu_ratio=9.0)) == []


@pytest.mark.parametrize("held", [None, "no JSON", "[]", "{}", json.dumps(document())])
def test_a_file_that_holds_no_ratio_is_refused_before_the_run(
    held: str | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "earlier.json"
    if held is not None:
        file.write_text(held)

    assert bench.main(["--compare", str(file)]) == 2
    assert f"--compare: {file}" in capsys.readouterr().err


def test_a_worse_ratio_fails_the_run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The whole of `--compare`, on a run that is only said to have been made."""
    earlier, out = tmp_path / "earlier.json", tmp_path / "now.json"
    earlier.write_text(json.dumps(document(cpu_ratio=1.0)))
    books = {"mismatches": [], "open_holds": 0, "generations": 1, "answered": 1, "mischarged": 0}
    found = {now: {**document(cpu_ratio=now), "books": books} for now in (1.05, 1.2)}
    statuses = []
    for run in found.values():
        monkeypatch.setattr(bench, "_run", lambda *_, run=run, **__: (run, "a table"))
        statuses.append(bench.main(["--compare", str(earlier), "--out", str(out)]))

    assert statuses == [0, 1]
    assert json.loads(out.read_text())["figures"]["cpu_ratio"]["value"] == 1.2


def test_other_conditions_are_told() -> None:
    other = document()
    other["conditions"] = {**document()["conditions"], "upstream": "simulated"}  # type: ignore[dict-item]  # The conditions are a mapping.

    assert differences(document(), document()) == []
    assert differences(other, document()) == ["upstream: was simulated, is nginx"]


def test_cpu_is_read_past_a_command_with_spaces_and_parentheses() -> None:
    stat = "7 (gunicorn: (web) 1) S 3 7 7 0 -1 4194560 11 0 0 0 250 50 9 9 20 0 4 0 100 1 1"

    assert cpu_s_of(stat, ticks_per_s=100) == 3.0


def test_a_process_that_ended_holds_no_memory() -> None:
    assert rss_bytes_of("Name:\tx\nState:\tZ (zombie)\n") == 0


def test_resident_memory_is_in_bytes() -> None:
    assert rss_bytes_of("Name:\tx\nVmRSS:\t  2048 kB\nThreads:\t1\n") == 2_097_152


def test_a_replaced_worker_spoils_the_interval() -> None:
    assert spent_s({1: 1.0, 2: 2.0}, {1: 1.5, 2: 3.0}) == pytest.approx(1.5)
    with pytest.raises(ProcessReplaced):
        spent_s({1: 1.0, 2: 2.0}, {1: 1.5, 3: 0.1})


def test_the_generators_summary_is_its_last_line_of_json() -> None:
    output = 'Running 2s test\n  1 threads\n{"requests": 10, "seconds": 2.0, "p50_ms": 1.5, '
    output += '"p99_ms": 3.0, "failed": 0}\n'

    assert parsed(output) == Load(requests=10, seconds=2.0, p50_ms=1.5, p99_ms=3.0, failed=0)
    with pytest.raises(LoadFailed):
        parsed("unable to connect")


@pytest.mark.parametrize(
    ("requests", "failed", "stands"), [(0, 0, False), (900, 1, False), (1000, 1, True)]
)
def test_one_failure_in_a_thousand_is_a_hiccup(requests: int, failed: int, stands: bool) -> None:
    load = Load(requests=requests, seconds=1, p50_ms=1, p99_ms=1, failed=failed)

    if stands:
        assert checked(load) is load
    else:
        with pytest.raises(LoadFailed):
            checked(load)


@pytest.mark.parametrize("piece_bytes", [1, 2, 3, 7, 1000])
def test_events_are_counted_however_the_bytes_are_cut(piece_bytes: int) -> None:
    reader = EventReader()
    # Its first piece holds the status line, as the first read of a loopback socket does.
    pieces = [STREAM[:20]]
    pieces += [STREAM[at : at + piece_bytes] for at in range(20, len(STREAM), piece_bytes)]
    for piece in pieces:
        assert not reader.is_whole
        reader.feed(piece)

    assert reader.events == 3
    assert reader.is_whole


def test_a_refused_stream_is_not_whole() -> None:
    reader = EventReader()
    reader.feed(b"HTTP/1.1 503 Service Unavailable\r\n\r\ndata: [DONE]\n\n")

    assert not reader.is_whole


def test_the_bundled_generator_knows_where_an_answer_ends() -> None:
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"

    assert answer_bytes(answer[:20]) is None
    assert answer_bytes(answer) == len(answer)
    with pytest.raises(ConnectionError):
        answer_bytes(b"HTTP/1.1 200 OK\r\n\r\n")


def test_the_bundled_generator_asks_with_key_and_length() -> None:
    request = request_bytes("http://127.0.0.1:1/a/b", key="k", body='{"é": 1}')

    assert request.startswith(b"POST /a/b HTTP/1.1\r\nHost: 127.0.0.1:1\r\n")
    assert b"Authorization: Bearer k\r\n" in request
    assert b"Content-Length: 9\r\n\r\n" in request


def answer(*, content: str = "well", cost: float | None = 0.000016) -> dict[str, Any]:
    """Ten tokens in and three out, at $0.000001 and $0.000002."""
    usage = {"prompt_tokens": 10, "completion_tokens": 3, "cost": cost}
    return {"choices": [{"message": {"content": content}}], "usage": usage}


def test_an_answer_that_is_the_upstreams_and_priced_may_be_counted() -> None:
    check_governed(answer(), answer())


@pytest.mark.parametrize("wrong", [{"content": "else"}, {"cost": 0}, {"cost": 0.000017}])
def test_a_fast_wrong_answer_is_no_figure(wrong: dict[str, Any]) -> None:
    with pytest.raises(LoadFailed):
        check_governed(answer(**wrong), answer())


def test_the_bench_takes_two_cores_of_many(monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[object] = []
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: {7, 3, 5, 1}, raising=False)
    monkeypatch.setattr(
        os, "sched_setaffinity", lambda _pid, cores: taken.append(cores), raising=False
    )

    conditions.confine(2)

    assert taken == [[1, 3]]


def test_the_books_hold_every_answer() -> None:
    well = Books([], open_holds=0, generations=10, answered=10, mischarged=0)
    ill = Books(["off by one"], open_holds=1, generations=9, answered=10, mischarged=2)

    assert well.problems() == []
    assert len(ill.problems()) == 4
