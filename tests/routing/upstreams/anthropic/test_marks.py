"""Breakpoints and features are found wherever they stand, however deep."""

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from routing.upstreams.anthropic.betas import list_required_betas
from routing.upstreams.anthropic.blocks import CallIds, build_tool_result_block
from routing.upstreams.anthropic.messages import MARKS_MAX, limit_marks

LONG_CACHE, FILES = "extended-cache-ttl-2025-04-11", "files-api-2025-04-14"
CHANGES = "mid-conversation-tool-changes-2026-07-01"
EPHEMERAL = {"type": "ephemeral"}

marks = st.sampled_from([None, EPHEMERAL, {**EPHEMERAL, "ttl": "1h"}])
sources = st.sampled_from([None, "s", {"type": "url"}, {"type": "file", "file_id": "f"}])
kinds = st.sampled_from(["text", "tool_result", "tool_addition", "tool_removal"])


def _blocks(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    fields = {"cache_control": marks, "source": sources, "type": kinds, "content": inner}
    return st.fixed_dictionaries({}, optional=fields)


def _lists(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.lists(_blocks(inner), max_size=4)


contents = st.recursive(st.none() | st.text(max_size=2), _lists, max_leaves=8)
turns = st.fixed_dictionaries({"role": st.sampled_from(["user", "assistant"]), "content": contents})
bodies = st.fixed_dictionaries(
    {"messages": st.lists(turns, max_size=5)},
    optional={
        "system": contents,
        "tools": st.lists(st.fixed_dictionaries({}, optional={"cache_control": marks}), max_size=3),
        "cache_control": marks,
    },
)


def _inside(content: Any) -> Iterator[dict[str, Any]]:
    for block in content if isinstance(content, list) else []:
        yield from _inside(block.get("content"))
        yield block


def _list_marks(body: dict[str, Any]) -> list[tuple[bool, str | None]]:
    """Whether each place carries a mark and for how long, as the model reads them."""
    places = [*_inside(body.get("tools")), *_inside(body.get("system"))]
    places += [block for turn in body["messages"] for block in _inside(turn["content"])]
    found = [place.get("cache_control") for place in places]
    return [(mark is not None, (mark or {}).get("ttl")) for mark in found]


@given(bodies)
def test_the_last_marks_stay(body: dict[str, Any]) -> None:
    most = MARKS_MAX - (body.get("cache_control") is not None)
    before = repr(body)
    given_marks, kept = _list_marks(body), _list_marks(limit_marks(body))
    places = [place for place, (is_marked, _) in enumerate(given_marks) if is_marked][-most:]
    unmarked = (False, None)
    assert kept == [mark if place in places else unmarked for place, mark in enumerate(given_marks)]
    assert repr(body) == before


@given(bodies)
def test_what_is_used_at_any_depth_is_named(body: dict[str, Any]) -> None:
    blocks = [*_inside(body.get("system"))]
    blocks += [block for turn in body["messages"] for block in _inside(turn["content"])]
    used = {CHANGES for block in blocks if str(block.get("type")).startswith("tool_a")}
    used |= {CHANGES for block in blocks if block.get("type") == "tool_removal"}
    used |= {FILES for block in blocks if "file" in repr(block.get("source"))}
    holders = [body, *blocks, *body.get("tools", [])]
    used |= {LONG_CACHE for each in holders if "1h" in repr(each.get("cache_control"))}
    assert sorted(list_required_betas(body)) == sorted(used)


@pytest.mark.parametrize("mark", [5, True, "x", [], ["x"], None])
def test_what_is_no_mark_on_a_tool_message_is_none(mark: Any) -> None:
    message = {"role": "tool", "tool_call_id": "c", "content": "r", "cache_control": mark}
    assert "cache_control" not in build_tool_result_block(message, CallIds())
    marked = build_tool_result_block({**message, "cache_control": EPHEMERAL}, CallIds())
    assert marked["cache_control"] == EPHEMERAL
