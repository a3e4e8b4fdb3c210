"""The parts of `make bench-peers` that decide: figures, chart, installation, what is asked."""

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.load.accounting import tree_of
from tests.load.figures import Interval
from tests.load.generator import request_bytes
from tests.load.generators import header_lines
from tests.load.peers import __main__ as bench_peers
from tests.load.peers import installs
from tests.load.peers.chart import Panel, bar_lengths, chart
from tests.load.peers.comparing import grown_s
from tests.load.peers.figures import Compared, servers_table
from tests.load.peers.servers import LITELLM, OURS, PORTKEY, litellm_config

SVG = "{http://www.w3.org/2000/svg}"
PEERS = (OURS, PORTKEY, LITELLM)


def turns(ours_s: float, portkey_s: float, litellm_s: float) -> dict[str, Interval]:
    """A round of 1,000 units each; the database spent a fifth of ours beside."""
    spent = zip(PEERS, (ours_s, portkey_s, litellm_s), strict=True)
    return {
        name: Interval(1000, 10.0, cpu_s, 2.0, 0.2 * ours_s if name == OURS else 0.0)
        for name, cpu_s in spent
    }


def compared() -> Compared:
    # The second round met a slow minute, which all three felt.
    requests = [turns(0.5, 1.0, 5.0), turns(5.0, 10.0, 50.0), turns(0.5, 1.0, 5.0)]
    chunks = [turns(0.05, 0.1, 1.0)] * 3
    return Compared(requests, chunks, dict.fromkeys(PEERS, 200_000_000))


def document() -> dict[str, object]:
    versions = {
        LITELLM: {"litellm": "1.0"},
        PORTKEY: {"@portkey-ai/gateway": "2.0", "node": "20.0"},
    }
    conditions = {
        "cores": 2,
        "load_generator": "wrk 4",
        "upstream": "nginx 1",
        "web_workers": {OURS: 2, PORTKEY: 1, LITELLM: 2},
        "versions": versions,
    }
    servers = compared().servers()
    return {"made_at": "2026-01-02T03:04:05", "conditions": conditions, "servers": servers}


def test_a_ratio_is_taken_within_a_round() -> None:
    found = {line.required.name: line for line in compared().figures()}

    assert found["cpu_of_portkey"].value == pytest.approx(0.5)
    assert found["cpu_of_litellm"].value == pytest.approx(0.1)
    assert found["chunk_cpu_of_litellm"].value == pytest.approx(0.05)
    assert {name: line.bound for name, line in found.items()} == {
        "cpu_of_portkey": 0.75,
        "cpu_of_litellm": 0.12,
        "chunk_cpu_of_litellm": 0.08,
    }
    assert all(line.as_json()["met"] for line in found.values())


def test_each_gateway_has_its_own_figures() -> None:
    servers = compared().servers()

    assert list(servers) == list(PEERS)
    assert servers[OURS]["cpu_us_per_request"] == pytest.approx(500)
    assert servers[OURS]["database_us_per_request"] == pytest.approx(100)
    assert servers[PORTKEY]["database_us_per_request"] == 0
    assert servers[LITELLM]["cpu_us_per_chunk"] == pytest.approx(1000)
    assert servers[LITELLM]["requests_per_s"] == pytest.approx(100)
    assert servers[LITELLM]["memory_mb"] == pytest.approx(200)


def test_the_table_has_a_column_for_each_gateway() -> None:
    heading, first, *_ = servers_table(compared().servers()).splitlines()

    assert [heading.index(name) for name in PEERS] == sorted(heading.index(name) for name in PEERS)
    assert first.split()[-6:] == ["500", "us", "1,000", "us", "5,000", "us"]


def test_bars_are_as_long_as_their_values() -> None:
    lengths = bar_lengths({"a": 100.0, "b": 50.0, "c": 0.0}, 400.0)

    assert lengths["a"] == 400
    assert lengths["b"] == 200
    assert 0 < lengths["c"] < 5


def test_the_chart_is_whole_and_marks_one_bar() -> None:
    panels = [Panel("one <of two>", "{:,.0f} us", {"a & b": 1234.0, "c": 5.0})]

    root = ElementTree.fromstring(chart("Title", panels, marked="c", notes=["first", "second"]))  # noqa: S314 - Our own text.

    told = [text.text for text in root.iter(f"{SVG}text")]
    assert {"one <of two>", "a & b", "1,234 us", "5 us", "first", "second"} <= set(told)
    paper, *bars = root.iter(f"{SVG}rect")
    assert len({bar.get("fill") for bar in bars}) == len(bars) == 2
    assert float(paper.get("height", 0)) == float(root.get("height", 0))


def test_a_run_is_drawn_with_its_conditions() -> None:
    drawn = bench_peers.drawn(document())

    for told in (*PEERS, "500 µs", "2026-01-02", "LiteLLM 1.0", "Portkey 2.0", "node 20.0"):
        assert told in drawn


def test_a_servers_tree_holds_grandchildren_and_no_strangers() -> None:
    parents = {10: 1, 11: 10, 12: 10, 13: 11, 99: 1, 100: 99}

    assert sorted(tree_of(10, parents)) == [10, 11, 12, 13]


def test_a_database_backend_may_come_and_go() -> None:
    assert grown_s({1: 1.0, 2: 5.0}, {1: 1.5, 3: 0.25}) == pytest.approx(0.75)


def test_further_headers_reach_the_request() -> None:
    lines = header_lines({"x-one": "1", "x-two": "http://127.0.0.1:2/v1"})
    request = request_bytes("http://127.0.0.1:1/a", key="k", body="{}", further=lines)

    head, _, body = request.partition(b"\r\n\r\n")
    assert head.split(b"\r\n")[-2:] == [b"x-one: 1", b"x-two: http://127.0.0.1:2/v1"]
    assert body == b"{}"


def test_litellm_serves_the_same_models_from_the_same_upstreams() -> None:
    config = litellm_config({"whole": "http://127.0.0.1:1/v1", "paced": "http://127.0.0.1:2/v1"})

    models = config["model_list"]
    assert isinstance(models, list)
    assert [one["model_name"] for one in models] == ["bench/whole", "bench/paced"]
    assert models[1]["litellm_params"]["api_base"] == "http://127.0.0.1:2/v1"


def test_an_installation_that_failed_ends_with_2_and_the_installers_words(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(_what: str, _command: object) -> None:
        # What `_run` does with an installer that fails, without a network to fail on.
        real(_what, ["sh", "-c", "echo no matching version >&2; exit 1"])

    real = installs._run
    monkeypatch.setattr(installs, "_run", fails)
    monkeypatch.setenv("GATEWAY_HOME", str(tmp_path))

    assert bench_peers.main([]) == 2
    told = capsys.readouterr().err
    assert "LiteLLM could not be installed" in told
    assert "no matching version" in told
    assert not list(tmp_path.rglob(".installed-*"))


def test_without_node_it_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(installs, "_litellm", lambda folder, _say: folder)
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(installs.InstallFailed, match="needs node and npm"):
        installs.install(tmp_path, lambda _what: None)


def test_what_is_installed_stays(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    ran: list[str] = []
    monkeypatch.setattr(installs, "_run", lambda what, _command: ran.append(what))
    monkeypatch.setattr("shutil.which", lambda name: f"/bin/{name}")
    (tmp_path / "peers" / "litellm").mkdir(parents=True)

    first = installs.install(tmp_path, lambda _what: None)
    assert set(ran) == {"LiteLLM", "Portkey's gateway"}
    ran.clear()

    assert installs.install(tmp_path, lambda _what: None) == first
    assert ran == []
    package = json.loads((tmp_path / "peers" / "portkey" / "package.json").read_text())
    assert package["dependencies"] == {"@portkey-ai/gateway": installs.PORTKEY_VERSION}
