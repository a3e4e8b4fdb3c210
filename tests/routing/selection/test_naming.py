"""How a model reference is read: by table, and the other way round for whatever is put together."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from routing.selection.naming import (
    CHARS_MAX,
    EFFECTS,
    Family,
    Name,
    Preset,
    family_of,
    parse,
    preset_of,
)


@pytest.mark.parametrize(
    ("reference", "base", "suffixes"),
    [
        ("acme/small", "acme/small", ()),
        ("acme/small:nitro", "acme/small", ("nitro",)),
        ("acme/small:free", "acme/small:free", ()),
        ("acme/small:free:online", "acme/small:free", ("online",)),
        ("acme/small:thinking:nitro:online", "acme/small:thinking", ("nitro", "online")),
        ("acme/small:online:free", "acme/small:online:free", ()),
        ("acme/small:weird", "acme/small:weird", ()),
        ("acme/small:weird:nitro", "acme/small:weird", ("nitro",)),
        ("acme/small:Nitro", "acme/small:Nitro", ()),
        ("acme/small:", "acme/small:", ()),
        ("acme/small::nitro", "acme/small:", ("nitro",)),
        ("router/auto:floor", "router/auto", ("floor",)),
        ("auto:exacto", "auto", ("exacto",)),
        ("~acme/small-latest:online", "~acme/small-latest", ("online",)),
        (":nitro", "", ("nitro",)),
        ("nitro", "nitro", ()),
        ("", "", ()),
    ],
)
def test_dynamic_suffixes_come_off_from_the_end(
    reference: str, base: str, suffixes: tuple[str, ...]
) -> None:
    assert parse(reference) == Name(base, suffixes)


@given(
    st.from_regex(r"[a-z0-9~][a-z0-9./:-]{0,40}", fullmatch=True),
    st.lists(st.sampled_from(sorted(EFFECTS)), max_size=6),
)
def test_suffixes_stack_in_any_number_and_order(base: str, suffixes: list[str]) -> None:
    inner = parse(base)

    name = parse(":".join([base, *suffixes]))

    assert name == Name(inner.base, (*inner.suffixes, *suffixes))
    assert parse(name.base).suffixes == ()


@given(st.text(max_size=60))
def test_what_is_taken_off_can_be_put_back(reference: str) -> None:
    name = parse(reference)

    assert ":".join([name.base, *name.suffixes]) == reference
    assert name.effects == [EFFECTS[each] for each in name.suffixes]


def test_megabytes_of_suffixes_are_no_work() -> None:
    reference = "acme/small" + ":nitro" * 1_000_000

    begun = time.process_time()
    name = parse(reference)

    assert time.process_time() - begun < 0.1
    assert name == Name(reference)
    assert parse("a/b" + ":nitro" * (CHARS_MAX // 6 - 1)).base == "a/b"


@pytest.mark.parametrize(
    ("base", "family"),
    [
        ("~acme/small-latest", Family("acme/small")),
        ("~acme/small-latest:free", Family("acme/small", ":free")),
        ("~acme/small-3-latest", Family("acme/small-3")),
        ("~acme/small", None),
        ("~acme/latest", None),
        ("acme/small-latest", None),
        ("", None),
    ],
)
def test_the_newest_of_a_family_is_asked_for_with_a_tilde(base: str, family: Family | None) -> None:
    assert family_of(base) == family


@pytest.mark.parametrize(
    ("reference", "preset"),
    [
        ("@preset/mail", Preset("", "mail")),
        ("@PRESET/Mail", Preset("", "Mail")),
        ("acme/small@preset/mail", Preset("acme/small", "mail")),
        ("acme/small:free:nitro@preset/mail", Preset("acme/small:free:nitro", "mail")),
        ("@preset/mail:nitro", Preset("", "mail:nitro")),
        ("@preset/", Preset("", "")),
        ("@preset", None),
        ("acme/small", None),
        ("acme/small@home/x", None),
    ],
)
def test_a_preset_stands_behind_its_own_word(reference: str, preset: Preset | None) -> None:
    assert preset_of(reference) == preset
