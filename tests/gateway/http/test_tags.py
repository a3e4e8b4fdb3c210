"""What of a request is a tag, and which headers are none."""

from typing import Any

import pytest

from gateway.http.tags import TAGS_MAX, TagsInvalid, read_tags


def test_the_header_comes_before_metadata_and_metadata_before_the_trace() -> None:
    tags = read_tags("a=1, b = x%3Dy ,", {"a": "2", "c": "3"}, {"c": "4", "d": 5, "e": True})

    assert tags == {"a": "1", "b": "x=y", "c": "3", "d": "5", "e": "true"}


@pytest.mark.parametrize(
    "source",
    [
        {"user_id": "alice", "user": "alice"},
        {"trace_id": "t", "trace_name": "n", "span_name": "s", "parent_span_id": "p"},
        {"nested": {"a": 1}, "list": [1], "nothing": None, "empty": ""},
        {"x" * 65: "long name", "long value": "x" * 513, "a=b": "equals", "null": "a\x00b"},
        "no object",
        ["no object"],
    ],
)
def test_what_is_no_plain_value_or_names_a_person_is_left_out(source: Any) -> None:
    assert read_tags(None, source, source) == {}


def test_what_the_identity_says_comes_first_and_counts_among_the_sixteen() -> None:
    own = {"team": "build"}
    header = ",".join(["team=other", *(f"t{number}=x" for number in range(TAGS_MAX - 1))])

    assert read_tags("team=other,a=1", {"team": "third"}, None, own) == {"team": "build", "a": "1"}
    assert len(read_tags(header, {"more": "x"}, None, own)) == TAGS_MAX
    with pytest.raises(TagsInvalid, match="with the 1 of the token"):
        read_tags(f"{header},last=x".removeprefix("team=other,"), None, None, own)


def test_there_are_sixteen_at_most() -> None:
    many = {f"m{number}": "v" for number in range(20)}

    assert list(read_tags("h=1", many, None)) == ["h", *list(many)[: TAGS_MAX - 1]]


@pytest.mark.parametrize(
    ("header", "text"),
    [
        ("blue", "name=value pairs"),
        ("=blue", "name=value pairs"),
        ("team=", "name=value pairs"),
        ("te%3Dam=blue", "no equals sign"),
        ("team=b%00", "no null character"),
        (f"{'t' * 65}=x", "at most 64"),
        (f"t={'x' * 513}", "of at most"),
        (",".join(f"t{number}=x" for number in range(17)), "at most 16 tags"),
        ("t=" + "x," * 5_000, "at most 8192 characters"),
    ],
)
def test_a_header_that_is_no_list_of_tags_says_why(header: str, text: str) -> None:
    with pytest.raises(TagsInvalid, match=text):
        read_tags(header, None, None)
