"""How models and providers are named: references, suffixes, patterns, lists of providers."""

import fnmatch
import re
import time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from routing.selection.model_references import (
    CHARS_MAX,
    EFFECTS,
    Family,
    ModelReference,
    PresetReference,
    family_of,
    keys_of,
    parse_reference,
    preset_of,
    reference_test,
)
from routing.selection.patterns import compile_patterns
from tests.routing.selection.entries import endpoint, provider

# --- Model references -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reference", "base", "suffixes"),
    [
        ("acme/small:free:online", "acme/small:free", ("online",)),
        ("acme/small:online:free", "acme/small:online:free", ()),
        ("acme/small:weird:nitro", "acme/small:weird", ("nitro",)),
        ("acme/small:Nitro", "acme/small:Nitro", ()),
        ("acme/small::nitro", "acme/small:", ("nitro",)),
        (":nitro", "", ("nitro",)),
    ],
)
def test_dynamic_suffixes_come_off_from_the_end(
    reference: str, base: str, suffixes: tuple[str, ...]
) -> None:
    assert parse_reference(reference) == ModelReference(base, suffixes)


@given(
    st.from_regex(r"[a-z0-9~][a-z0-9./:-]{0,40}", fullmatch=True),
    st.lists(st.sampled_from(sorted(EFFECTS)), max_size=6),
)
def test_suffixes_stack_in_any_number_and_order(base: str, suffixes: list[str]) -> None:
    inner = parse_reference(base)

    name = parse_reference(":".join([base, *suffixes]))

    assert name == ModelReference(inner.base, (*inner.suffixes, *suffixes))
    assert parse_reference(name.base).suffixes == ()


def test_megabytes_of_suffixes_are_no_work() -> None:
    reference = "acme/small" + ":nitro" * 1_000_000

    begun = time.process_time()
    name = parse_reference(reference)

    assert time.process_time() - begun < 0.1
    assert name == ModelReference(reference)
    assert parse_reference("a/b" + ":nitro" * (CHARS_MAX // 6 - 1)).base == "a/b"


@pytest.mark.parametrize(
    ("base", "family"),
    [
        ("~acme/small-latest:free", Family("acme/small", ":free")),
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
        ("@preset/mail", PresetReference("", "mail")),
        ("@PRESET/Mail", PresetReference("", "Mail")),
        ("acme/small@preset/mail", PresetReference("acme/small", "mail")),
        ("acme/small:free:nitro@preset/mail", PresetReference("acme/small:free:nitro", "mail")),
        ("@preset/mail:nitro", PresetReference("", "mail:nitro")),
        ("@preset/", PresetReference("", "")),
        ("@preset", None),
        ("acme/small", None),
        ("acme/small@home/x", None),
    ],
)
def test_a_preset_stands_behind_its_own_word(
    reference: str, preset: PresetReference | None
) -> None:
    assert preset_of(reference) == preset


# --- Patterns of model names: none of them can take long ------------------------------------------

NAMES = ("acme/small", "acme/small:free", "acme/large", "other/small", "other/x-small-2")
# Names and patterns of few letters meet often.
NAME = st.text("ab/-", max_size=12)
PATTERN = st.text("ab/-*", max_size=10)
SECONDS_MAX = 1.0


def matching(*patterns: str) -> set[str]:
    return compile_patterns(patterns).matching(NAMES)


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("ACME/Small", {"acme/small"}),
        ("*/*small*2", {"other/x-small-2"}),
        ("acme/small?", set()),
        ("acme/[s]mall", set()),
        ("acme.small", set()),
    ],
)
def test_a_star_stands_for_anything_and_nothing_else_does(pattern: str, names: set[str]) -> None:
    assert matching(pattern) == names


@given(st.lists(PATTERN, max_size=4), st.lists(NAME, max_size=6))
@example(["a*a"], ["a"])
@example(["*ab*ab"], ["abab", "ab", "abb"])
def test_it_is_what_the_shell_would_say(patterns: list[str], names: list[str]) -> None:
    shell = [re.compile(fnmatch.translate(pattern)) for pattern in patterns]

    found = compile_patterns(tuple(patterns)).matching(names)

    assert found == {name for name in names if any(each.fullmatch(name) for each in shell)}


CATALOGUE = [f"{'a' * (n % 40)}/{'ab' * (n % 60)}{n}" for n in range(2000)]
NASTY: dict[str, tuple[str, ...]] = {
    "a star between any two letters": ("*a" * 512,),
    "many of them": ("*a" * 512,) * 64,
    "each another one": tuple("*" + "a*" * 30 + str(n) for n in range(1024)),
    "that fail at the very end": tuple("*" + "a*b*" * 14 + f"{n}!" for n in range(1024)),
    "stars only": ("*" * 1024,) * 64,
    "what a regular expression would choke on": ("(a+)+$", "(a|a)*b", "a{1000}{1000}") * 300,
    "that nearly match": tuple(f"*{'a*b*' * 12}{chr(33 + n % 90)}*{n}" for n in range(1024)),
    "literal and long": ("a" * 1024,) * 64,
    "long parts": (("a" * 100 + "*") * 10,) * 60,
}


@pytest.mark.parametrize("patterns", NASTY.values(), ids=NASTY)
def test_no_patterns_of_a_caller_take_long(patterns: tuple[str, ...]) -> None:
    """All of these are within the bounds of a request, and the catalogue is a large one."""
    assert len(patterns) <= 1024
    assert sum(map(len, patterns)) <= 65_536
    begun = time.process_time()

    compile_patterns(patterns).matching(CATALOGUE)

    assert time.process_time() - begun < SECONDS_MAX


# --- Provider references --------------------------------------------------------------------------

BASE = endpoint("deepinfra", provider=provider("deepinfra", name="DeepInfra"))
TURBO = endpoint("deepinfra/turbo", provider=provider("deepinfra", name="DeepInfra"))
FLEX = endpoint("deepinfra/flex", provider=provider("deepinfra", name="DeepInfra"), tier="flex")
OTHER = endpoint("deep", provider=provider("deep", name="Deep AI"))
ALL = {"base": BASE, "turbo": TURBO, "flex": FLEX, "other": OTHER}

MEANT: list[tuple[str, set[str]]] = [
    ("deepinfra", {"base", "turbo"}),
    ("DEEPINFRA/Turbo", {"turbo"}),
    ("deepinfra/flex", {"flex"}),
    ("deep ai", {"other"}),
    ("deep", {"other"}),
    ("infra", set()),
    ("", set()),
    ("*", set()),
]


@pytest.mark.parametrize(("reference", "meant"), MEANT)
def test_a_reference_means_a_slug_a_full_slug_or_a_display_name(
    reference: str, meant: set[str]
) -> None:
    closed = reference_test(["nobody", reference], lambda each: each.tier == "default")
    opened = reference_test([reference], lambda _: True)

    assert {name for name, each in ALL.items() if closed(each)} == meant
    with_tier = meant | {"flex"} if "base" in meant else meant
    assert {name for name, each in ALL.items() if opened(each)} == with_tier


def test_case_is_no_difference_in_any_script() -> None:
    named = endpoint("x", provider=provider("x", name="Straße Ä"))

    assert reference_test(["STRASSE ä"], lambda _: True)(named)
    assert keys_of(["A", "a", "B"]) == {"a", "b"}
