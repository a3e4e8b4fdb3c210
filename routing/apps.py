from typing import Any

from django.apps import AppConfig


class RoutingConfig(AppConfig):
    """What can answer and who should."""

    name = "routing"

    def ready(self) -> None:
        from accounts.known_models import know_models_by
        from gateway.health import register_check

        register_check("catalogue", True, _catalogue_report)
        know_models_by(_names_a_model)


def _catalogue_report() -> dict[str, Any]:
    """Ready even when empty: an operator loads it while the server runs."""
    from routing.catalogue.snapshot import catalogue

    snapshot = catalogue.current()
    return {"ok": True, "version": snapshot.version, "endpoints": snapshot.endpoint_count}


def _names_a_model(name: str) -> bool:
    from routing.known_models import names_a_model

    return names_a_model(name)
