from typing import TYPE_CHECKING, cast

from django.apps import AppConfig
from django.utils.functional import SimpleLazyObject

from gateway.http.jsonio import JsonObject

if TYPE_CHECKING:
    from uuid import UUID

    from accounts.ports import HigherApps
    from routing.history.erasure import EndUser


class RoutingConfig(AppConfig):
    """What can answer and who should."""

    name = "routing"

    def ready(self) -> None:
        from accounts.ports import register_higher_apps
        from accounts.services.workspaces import WorkspaceBelongings, register_belongings
        from gateway.doctor.findings import register
        from gateway.health import register_check
        from gateway.http.vendor_names import register_router_check
        from routing.destinations.models import Destination
        from routing.history.erasure import register_eraser
        from routing.presets.models import Preset

        register_check("catalogue", True, _report_catalogue)
        register("prices", "routing.catalogue.pricebook.examine_prices")
        register_router_check(_is_router_alias)
        presets = WorkspaceBelongings(Preset.objects.all, _delete_presets)
        register_belongings("presets", presets)
        destinations = WorkspaceBelongings(
            Destination.objects.all, _delete_destinations, at_once=True
        )
        register_belongings("destinations", destinations)
        register_higher_apps(cast("HigherApps", SimpleLazyObject(_load_ports)))
        register_eraser("failures", _erase_from_failures)


def _report_catalogue() -> JsonObject:
    """Ready even when empty: an operator loads it while the server runs."""
    from routing.catalogue.snapshot import catalogue

    snapshot = catalogue.current()
    return {"ok": True, "version": snapshot.version, "endpoints": snapshot.endpoint_count}


def _delete_presets(workspace_id: "UUID") -> int:
    from routing.presets.services import delete_workspace_presets

    return delete_workspace_presets(workspace_id)


def _delete_destinations(workspace_id: "UUID") -> int:
    from routing.destinations.services import delete_destinations_of

    return delete_destinations_of(workspace_id)


def _erase_from_failures(user: "EndUser") -> int:
    from routing.reports.failed_requests import erase_from_failures

    return erase_from_failures(user)


def _is_router_alias(theirs: str, ours: str) -> bool:
    from routing.ports import is_router_alias

    return is_router_alias(theirs, ours)


def _load_ports() -> "HigherApps":
    """Load what accounts asks only when the first question comes."""
    from routing.ports import AccountPorts

    return AccountPorts()
