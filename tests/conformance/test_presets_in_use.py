"""Presets at inference: when they are in force, and that they choose providers."""

import pytest

from tests.conformance.desk import Desk
from tests.conformance.test_management_rows_presets import email


@pytest.fixture
def desk(own_wide_desk: Desk) -> Desk:
    return own_wide_desk


def test_a_new_preset_and_a_new_version_are_in_force_within_a_second(desk: Desk) -> None:
    assert desk.post(model="@preset/email").status_code == 404
    email(desk)
    desk.server.wait_until(
        lambda: desk.post(model="@preset/email").status_code == 200, within_s=1.0
    )
    email(desk, temperature=0.2)

    desk.server.wait_until(
        lambda: desk.ok(model="@preset/email") and desk.sent()[-1]["temperature"] == 0.2,
        within_s=1.0,
    )


def test_a_fixed_route_by_preset(desk: Desk) -> None:
    """What the preset says of providers is as good as the request's own word."""
    email(desk, provider={"only": ["nobody"]})

    error = desk.refused(404, "not_found", model="@preset/email")

    assert error["metadata"]["failed_routing_step"] == "Filter by Allowed Providers"
    assert desk.ok(model="@preset/email", provider={})["model"] == "acme/solo"
