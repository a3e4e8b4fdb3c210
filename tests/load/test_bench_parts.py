"""The arithmetic of both benches. Nothing here measures anything."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.load import bench, figures, samples
from tests.load.accounting import ProcessReplaced, cpu_s_of, spent_s
from tests.load.asks import QUESTIONS, check_decided, check_governed, decisions_body
from tests.load.books import Books
from tests.load.console_pages import Pages
from tests.load.crossings import BY_WIRE, CROSSINGS
from tests.load.figures import REQUIRED, Interval, Line, Pair, differences, percentile, regressions
from tests.load.flooding import Flooded
from tests.load.generators import Load
from tests.load.guessing import Guessed
from tests.load.history import PAGE, RECORD, Told
from tests.load.observing import Observing
from tests.load.peers.comparing import Compared, grown_s
from tests.load.peers.servers import LITELLM, OURS, PORTKEY
from tests.load.samples import Samples
from tests.load.selecting import Choosing
from tests.load.targets import LoadFailed
from tests.load.tokens import Presented, Tokens
from tests.load.toolless import Toolless
from tests.load.translating import TRANSLATIONS, Translating


def interval(cpu_s: float) -> Interval:
    return Interval(units=1000, seconds=1.0, cpu_s=cpu_s)


# The second pair met a slow minute, which both its sides felt.
PAIRS = [Pair(interval(1.6 * slow), interval(slow)) for slow in (1, 10, 1)]
COMMITS = samples.Commits(requests=1000, raw=2100, seconds=10, idle_per_s=10)


def formats() -> samples.Formats:
    """A plain request adds 2 ms, a stream's first text 1 ms, over one wire 1.5 ms."""
    over = {each.name: 4.5 if each.wire == "anthropic" else 4.0 for each in CROSSINGS}
    callers = {caller for caller, _ in TRANSLATIONS}
    parsing_us = dict.fromkeys(callers, 200.0)
    whole_us = {f"{caller}-{wire}": 700.0 for caller, wire in TRANSLATIONS}
    return samples.Formats(
        dict.fromkeys(over, PAIRS),
        {wire: [samples.FirstTokens(2.5, 0.5, over, direct_ms=3.0)] for wire in BY_WIRE},
        [Translating(dict.fromkeys(callers, 100_000), parsing_us, whole_us)],
    )


def whole_run() -> Samples:
    parts: dict[str, Any] = {
        "memory": samples.Memory(90_000_000, 100_000_000, 105_000_000, 0.05, 20_000),
        "requests": PAIRS,
        "rules": PAIRS,
        "selection": [
            samples.Selected(interval(0.6 * slow), Choosing(30.0 * slow, 33.0 * slow, 300.0 * slow))
            for slow in (1, 10, 1)
        ],
        "single": [samples.Single(governed_ms=2.3, ceiling_ms=0.5, direct_ms=0.2, commit_ms=2.0)],
        "commits": {1: COMMITS, 64: COMMITS},
        "streams": PAIRS,
        "formats": formats(),
        "decisions": samples.Decided(
            [Load(10, 2.0, 171.0, ms, 0) for ms in (190.0, 210.0, 200.0)], PAIRS
        ),
        "tools": samples.Tools(PAIRS, [Toolless(12.0 * slow) for slow in (1, 10, 1)]),
        "observing": samples.Observed(PAIRS, PAIRS, Observing(9.0, 0.01, 200.0)),
        "flood": [
            Flooded(4.0, 4.4, 50, 1_500, 13_500, 12),
            Flooded(8.0, 8.8, 50, 1_500, 8_500, 12),
        ],
        "guesses": [
            Guessed(4.0 * slow, 4.2 * slow, 8.0 * slow, 8.8 * slow, 2000, 5) for slow in (1, 10, 1)
        ],
        "tokens": [
            Presented(interval(1.0 * slow), Tokens(30.0 * slow, 10.0 * slow)) for slow in (1, 10, 1)
        ],
        "history": Told(1_000_000, {RECORD: [3.0], PAGE: [8.0], "totals": [90.0, 80.0]}),
        "console": Pages(1_000_000, {"home": [40.0, 50.0], "keys": [20.0]}),
        "starts_s": [3.0],
    }
    return Samples(**parts)


def document(**values: float) -> dict[str, Any]:
    lines = figures.figures({name: Line(value) for name, value in values.items()})
    conditions = {"cores": 2, "load_generator": "wrk", "upstream": "nginx", "quick": False}
    conditions["stream_upstream"] = "simulated upstream"
    told = {line.required.name: line.as_json() for line in lines}
    return {"conditions": conditions, "figures": told}


def test_a_percentile_is_one_of_the_values() -> None:
    found = [percentile([2.0, 1.0], percent) for percent in (50, 51, 99)]

    assert [*found, percentile([5.0], 50)] == [1.0, 2.0, 2.0, 5.0]


def test_figures_come_from_the_samples_and_ratios_are_taken_within_a_pair() -> None:
    lines = {line.required.name: line for line in whole_run().figures()}

    assert list(lines) == [required.name for required in REQUIRED]
    chunks = dict.fromkeys((f"chunk_{crossing.name}" for crossing in CROSSINGS), 1.6)
    translations = {f"translating_{caller}_{wire}": 2.5 for caller, wire in TRANSLATIONS}
    assert {name: line.value for name, line in lines.items()} == pytest.approx(
        {
            "cpu_ratio": 1.6,
            "rate_ratio": 1.0,
            "rules_ratio": 1.6,
            "selection_percent": 5,
            "selection_large_ratio": 1.1,
            "selection_auto_ratio": 10,
            "added_p50_ms": 2.1,
            "commits_per_request_1": 2.0,
            "commits_per_request_64": 2.0,
            "cpu_chunk_ratio": 1.6,
            **chunks,
            "first_text_ratio": 0.75,
            **translations,
            "decisions_ms": 200,
            "decisions_cpu_ratio": 1.6,
            "toolless_percent": 1.2,
            "tools_ratio": 1.6,
            "metrics_percent": 60,
            "untraced_percent": 0.001,
            "traces_percent": 6.001,
            "flood_p95_ratio": 1.1,
            "flood_records": 50,
            "guesses_p50_ratio": 1.05,
            "guesses_p95_ratio": 1.1,
            "token_percent": 2,
            "history_record_ms": 3,
            "history_page_ms": 8,
            "history_query_ms": 90,
            "console_page_ms": 50,
            "worker_idle_mb": 90,
            "worker_growth_percent": 5,
            "second_start_s": 3,
        }
    )
    # Its bound follows the measured commit.
    assert lines["added_p50_ms"].bound == pytest.approx(6.0)
    assert lines["cpu_ratio"].bound == 1.8
    told = [lines["cpu_ratio"].as_json()[name] for name in ("required", "met", "note")]
    assert told == ["<= 1.8", True, "1600 us and 1000 us"]
    assert lines["commits_per_request_64"].as_json()["met"] is False


@pytest.mark.parametrize(
    ("name", "before", "now", "is_worse"),
    [
        ("cpu_ratio", 1.0, 1.09, False),
        ("cpu_ratio", 1.0, 1.11, True),
        ("chunk_chat_over_anthropic", 1.0, 1.11, True),
        ("translating_chat_anthropic", 1.0, 1.11, True),
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
    assert regressions(document(), document(**{name: now})) == []


@pytest.mark.parametrize("held", [None, "no JSON", "[]", "{}", json.dumps(document())])
def test_a_file_that_holds_no_ratio_is_refused_before_the_run(
    held: str | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "earlier.json"
    if held is not None:
        file.write_text(held)

    assert bench.main(["--compare", str(file)]) == 2
    assert f"--compare: {file}" in capsys.readouterr().err


def test_other_conditions_are_told() -> None:
    other = document()
    other["conditions"]["upstream"] = "simulated"

    assert differences(document(), document()) == []
    assert differences(other, document()) == ["upstream: was simulated, is nginx"]


def test_cpu_is_read_past_any_command_and_a_replaced_worker_spoils_the_interval() -> None:
    stat = "7 (gunicorn: (web) 1) S 3 7 7 0 -1 4194560 11 0 0 0 250 50 9 9 20 0 4 0 100 1 1"

    assert cpu_s_of(stat, ticks_per_s=100) == 3.0
    assert spent_s({1: 1.0, 2: 2.0}, {1: 1.5, 2: 3.0}) == pytest.approx(1.5)
    with pytest.raises(ProcessReplaced):
        spent_s({1: 1.0, 2: 2.0}, {1: 1.5, 3: 0.1})


def test_more_than_one_failure_in_a_thousand_is_no_hiccup() -> None:
    def load(requests: int, failed: int) -> Load:
        return Load(requests, seconds=1, p50_ms=1, p99_ms=1, failed=failed)

    assert load(1000, 1).check() == load(1000, 1)
    for broken in (load(0, 0), load(900, 1)):
        with pytest.raises(LoadFailed):
            broken.check()


def answer(*, content: str = "well", cost: float = 0.000016) -> dict[str, Any]:
    """Ten tokens in and three out, at $0.000001 and $0.000002."""
    usage = {"prompt_tokens": 10, "completion_tokens": 3, "cost": cost}
    return {"choices": [{"message": {"content": content}}], "usage": usage}


def test_a_fast_wrong_answer_is_no_figure() -> None:
    check_governed(answer(), answer())
    for wrong in (answer(content="else"), answer(cost=0), answer(cost=0.000017)):
        with pytest.raises(LoadFailed):
            check_governed(wrong, answer())


def test_decisions_are_looked_at_before_they_are_counted() -> None:
    names = json.loads(decisions_body())["questions"]
    told = {name: {"probabilities": {"a": 0.25, "b": 0.75}} for name in names}
    one, *others = told

    assert len(told) == QUESTIONS
    check_decided({"answers": told})
    for wrong in ({name: told[name] for name in others}, told | {one: {"probabilities": {"a": 2}}}):
        with pytest.raises(LoadFailed):
            check_decided({"answers": wrong})


def test_the_books_hold_every_answer() -> None:
    well = Books([], open_holds=0, generations=10, answered=10, mischarged=0)
    ill = Books(["off by one"], open_holds=1, generations=9, answered=10, mischarged=2)

    assert well.problems() == []
    assert len(ill.problems()) == 4


# --- Beside other gateways

PEERS = (OURS, PORTKEY, LITELLM)


def turns(ours_s: float, portkey_s: float, litellm_s: float) -> dict[str, Interval]:
    """A round of 1,000 units each; the database spent a fifth of ours beside."""
    spent = zip(PEERS, (ours_s, portkey_s, litellm_s), strict=True)
    return {
        name: Interval(1000, 10.0, cpu_s, 2.0, 0.2 * ours_s if name == OURS else 0.0)
        for name, cpu_s in spent
    }


def build_compared() -> Compared:
    # The second round met a slow minute, which all three felt.
    requests = [turns(0.5, 1.0, 5.0), turns(5.0, 10.0, 50.0), turns(0.5, 1.0, 5.0)]
    chunks = [turns(0.05, 0.1, 1.0)] * 3
    return Compared(requests, chunks, dict.fromkeys(PEERS, 200_000_000))


def test_a_ratio_is_taken_within_a_round_and_each_gateway_has_its_own_figures() -> None:
    ratios = {line.required.name: line.value for line in build_compared().figures()}
    required = {"cpu_of_portkey": 0.5, "cpu_of_litellm": 0.1, "chunk_cpu_of_litellm": 0.05}
    requests = {"cpu_us_per_request": 500, "database_us_per_request": 100, "requests_per_s": 100}
    chunks = {"p50_ms": 2, "cpu_us_per_chunk": 50, "chunks_per_s": 100, "memory_mb": 200}

    assert ratios == pytest.approx(required)
    assert build_compared().own_figures(OURS) == pytest.approx(requests | chunks)
    assert build_compared().own_figures(PORTKEY)["database_us_per_request"] == 0


def test_a_database_backend_may_come_and_go() -> None:
    assert grown_s({1: 1.0, 2: 5.0}, {1: 1.5, 3: 0.25}) == pytest.approx(0.75)
