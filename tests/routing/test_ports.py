"""Which names of models mean something here."""

import pytest

from routing.catalogue.snapshot import catalogue
from routing.ports import is_router_alias
from tests.routing.selection.snapshots import priced_model, snapshot


@pytest.mark.parametrize(
    ("rest", "stands"),
    [
        ("auto", True),
        ("auto:floor@preset/p", True),
        ("fusion", True),
        ("nobody", False),
        # The catalogue has models of these names.
        ("free", False),
        ("free:nitro", False),
        ("free@preset/p", False),
        ("auto-beta", False),
    ],
)
def test_another_name_of_a_router_gives_way_to_a_model(
    monkeypatch: pytest.MonkeyPatch, rest: str, stands: bool
) -> None:
    known = snapshot(
        [priced_model("openrouter/free"), priced_model("acme/small")],
        **{"openrouter__auto-beta": "acme/small"},
    )
    monkeypatch.setattr(catalogue, "current", lambda: known)
    assert is_router_alias(f"openrouter/{rest}", f"router/{rest}") is stands
