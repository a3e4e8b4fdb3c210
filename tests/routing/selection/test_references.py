"""Provider references by table: who is meant by which."""

import pytest

from routing.selection.references import keys_of, matches, naming
from tests.routing.selection.entries import endpoint, provider

BASE = endpoint("deepinfra", provider=provider("deepinfra", name="DeepInfra"))
TURBO = endpoint("deepinfra/turbo", provider=provider("deepinfra", name="DeepInfra"))
FLEX = endpoint("deepinfra/flex", provider=provider("deepinfra", name="DeepInfra"), tier="flex")
OTHER = endpoint("deep", provider=provider("deep", name="Deep AI"))
ALL = {"base": BASE, "turbo": TURBO, "flex": FLEX, "other": OTHER}

MEANT: list[tuple[str, set[str]]] = [
    ("deepinfra", {"base", "turbo"}),
    ("DeepInfra", {"base", "turbo"}),
    ("DEEPINFRA/Turbo", {"turbo"}),
    ("deepinfra/flex", {"flex"}),
    ("deepinfra/", set()),
    ("deepinfra/us", set()),
    ("deep ai", {"other"}),
    ("Deep AI", {"other"}),
    ("deep", {"other"}),
    ("infra", set()),
    ("", set()),
    ("*", set()),
]


@pytest.mark.parametrize(("reference", "meant"), MEANT)
def test_a_reference_means_a_slug_a_full_slug_or_a_display_name(
    reference: str, meant: set[str]
) -> None:
    closed = naming(["nobody", reference], lambda each: each.tier == "default")
    opened = naming([reference], lambda _: True)

    for test in (closed, lambda each: matches(reference, each)):
        assert {name for name, each in ALL.items() if test(each)} == meant
    with_tier = meant | {"flex"} if "base" in meant else meant
    assert {name for name, each in ALL.items() if opened(each)} == with_tier


def test_case_is_no_difference_in_any_script() -> None:
    named = endpoint("x", provider=provider("x", name="Straße Ä"))

    assert matches("STRASSE ä", named)
    assert keys_of(["A", "a", "B"]) == {"a", "b"}
