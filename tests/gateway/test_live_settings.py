"""Settings that are looked up once."""

from django.test import override_settings

from gateway.live_settings import settings as live


def test_an_override_is_seen_at_once_and_so_is_its_end() -> None:
    before = live.ROUTER_MAX_MODELS

    with override_settings(ROUTER_MAX_MODELS=before + 1):
        assert before + 1 == live.ROUTER_MAX_MODELS

    assert before == live.ROUTER_MAX_MODELS


def test_a_name_nobody_set_is_an_attribute_error() -> None:
    assert not hasattr(live, "NO_SUCH_SETTING")
