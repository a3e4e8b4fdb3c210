from typing import Any

from django.apps import AppConfig


class RoutingConfig(AppConfig):
    """What can answer and who should."""

    name = "routing"

    def ready(self) -> None:
        from gateway.health import register_check

        register_check("catalogue", True, _catalogue_report)


def _catalogue_report() -> dict[str, Any]:
    """Ready even when empty: an operator loads it while the server runs."""
    from routing.catalogue.snapshot import catalogue

    snapshot = catalogue.current()
    return {"ok": True, "version": snapshot.version, "endpoints": snapshot.endpoint_count}
