"""Which preset a request names, and what is left of its body."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.http.errors import InvalidRequest
from routing.presets.apply import find_named_preset, insert_models, may_name_a_preset

HELLO = {"messages": [{"role": "user", "content": "me@home"}]}


@pytest.mark.parametrize(
    ("body", "rest", "requested"),
    [
        ({"model": "@preset/mail"}, {}, "@preset/mail"),
        ({"model": "@PReset/mail"}, {}, "@PReset/mail"),
        ({"model": "a/b@preset/mail"}, {"model": "a/b"}, "a/b@preset/mail"),
        ({"model": "a:free@preset/mail"}, {"model": "a:free"}, "a:free@preset/mail"),
        ({"model": "a/b", "preset": "mail"}, {"model": "a/b"}, "a/b"),
        ({"preset": "mail"}, {}, None),
        ({"model": "@preset/mail", "preset": "mail"}, {}, "@preset/mail"),
        ({"model": "a/b", "models": ["c/d", "@preset/mail"]}, None, "a/b"),
        ({"models": ["@preset/mail"]}, None, "@preset/mail"),
    ],
)
def test_the_ways_to_name_one(
    body: dict[str, Any], rest: dict[str, Any] | None, requested: str | None
) -> None:
    assert may_name_a_preset(body)
    named = find_named_preset(body)

    assert named is not None
    assert (named.slug, named.requested) == ("mail", requested)
    assert rest is None or named.body == rest


@pytest.mark.parametrize(
    "body",
    [
        HELLO,
        {"model": "a/b", "models": ["c/d"]},
        {"model": "a/b", "preset": None},
        {"model": 5, "models": "a@b", "fallbacks": {"model": "@preset/x"}},
        {"models": [5, None, ["@preset/x"]]},
    ],
)
def test_nearly_all_requests_name_none(body: dict[str, Any]) -> None:
    assert not may_name_a_preset(body)


@pytest.mark.parametrize("body", [{"model": "me@home"}, {"preset": ""}, {"preset": 5}])
def test_what_looks_like_it_is_none(body: dict[str, Any]) -> None:
    assert may_name_a_preset(body)
    assert find_named_preset(body) is None


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"model": "@preset/a", "preset": "b"}, "preset: differs"),
        ({"model": "a/b@preset/a", "preset": "A"}, "preset: differs"),
        ({"model": "@preset/a", "models": ["@preset/b"]}, "models: only one"),
        ({"model": "@preset/a:free"}, "model: a suffix belongs before"),
        ({"preset": "a:nitro"}, "model: a suffix belongs before"),
    ],
)
def test_what_cannot_be(body: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidRequest, match=message):
        find_named_preset(body)


def test_a_preset_alone_in_a_list_stands_for_its_models() -> None:
    body: dict[str, Any] = {
        "models": ["a/b", "@preset/p", "c/d@preset/p"],
        "fallbacks": [{"model": "@preset/p"}],
    }

    got = insert_models(body, ["x/1", "x/2"])

    assert got["models"] == ["a/b", "x/1", "x/2", "c/d"]
    assert got["fallbacks"] == [{"model": "x/1"}, {"model": "x/2"}]
    assert body["models"][1] == "@preset/p"


_ANY = st.none() | st.integers() | st.text() | st.sampled_from(["@preset/p", "a/b@preset/p"])
_ENTRIES = st.lists(_ANY | st.fixed_dictionaries({}, optional={"model": _ANY}), max_size=3)


@given(
    st.fixed_dictionaries(
        {},
        optional={
            "model": _ANY,
            "preset": st.sampled_from(["p", "", None, 5]),
            "models": _ENTRIES | _ANY,
            "fallbacks": _ENTRIES | _ANY,
        },
    )
)
def test_any_body_can_be_asked(body: dict[str, Any]) -> None:
    try:
        named = find_named_preset(body)
    except InvalidRequest:
        return
    if named is None:
        return
    assert may_name_a_preset(body)
    rest = insert_models(named.body, ["x/1"])
    assert find_named_preset(rest) is None
