from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from django.apps import AppConfig

from gateway.http.jsonio import JsonObject

if TYPE_CHECKING:
    from datetime import datetime
    from uuid import UUID

    from accounts.ports import ByokUsage, KeyTrial, RecentUsage, UsageScope


class RoutingConfig(AppConfig):
    """What can answer and who should."""

    name = "routing"

    def ready(self) -> None:
        from accounts.ports import register_higher_apps
        from accounts.services.workspaces import WorkspaceBelongings, register_belongings
        from gateway.doctor.findings import register
        from gateway.health import register_check
        from gateway.http.vendor_names import register_router_check
        from routing.history.erasure import register_eraser

        register_check("catalogue", True, _report_catalogue)
        register("prices", "routing.catalogue.pricebook.examine_prices")
        register_router_check(_is_router_alias)
        register_belongings("presets", WorkspaceBelongings(_list_presets, _delete_presets))
        destinations = WorkspaceBelongings(_list_destinations, _delete_destinations, at_once=True)
        register_belongings("destinations", destinations)
        register_higher_apps(_AccountPorts())
        register_eraser("failures", _erase_from_failures)


def _report_catalogue() -> JsonObject:
    """Ready even when empty: an operator loads it while the server runs."""
    from routing.catalogue.snapshot import catalogue

    snapshot = catalogue.current()
    return {"ok": True, "version": snapshot.version, "endpoints": snapshot.endpoint_count}


def _list_presets() -> Any:
    from routing.presets.models import Preset

    return Preset.objects.all()


def _delete_presets(workspace_id: "UUID") -> int:
    from routing.presets.services import delete_workspace_presets

    return delete_workspace_presets(workspace_id)


def _list_destinations() -> Any:
    from routing.destinations.models import Destination

    return Destination.objects.all()


def _delete_destinations(workspace_id: "UUID") -> int:
    from routing.destinations.services import delete_destinations_of

    return delete_destinations_of(workspace_id)


def _erase_from_failures(user: Any) -> int:
    from routing.reports.failed_requests import erase_from_failures

    return erase_from_failures(user)


def _is_router_alias(theirs: str, ours: str) -> bool:
    from routing.ports import is_router_alias

    return is_router_alias(theirs, ours)


class _AccountPorts:
    """`accounts.ports.HigherApps`. Modules are imported when the first question comes."""

    def is_known_model(self, name: str) -> bool:
        from routing.ports import is_model_name

        return is_model_name(name)

    def is_known_provider(self, slug: str) -> bool:
        from routing.ports import is_provider_slug

        return is_provider_slug(slug)

    def find_model_slugs(self, names: Iterable[str]) -> Mapping[str, str]:
        from routing.ports import find_model_slugs

        return find_model_slugs(names)

    def find_provider_slugs(self, names: Iterable[str]) -> Mapping[str, str]:
        from routing.ports import find_provider_slugs

        return find_provider_slugs(names)

    def try_key(self, slug: str, key: str) -> "KeyTrial":
        from routing.ports import try_key

        return try_key(slug, key)

    def count_byok_usage(
        self, account_id: "UUID", credential_id: "UUID", since: "datetime"
    ) -> "ByokUsage":
        from routing.metering.byok import read_byok_usage

        return read_byok_usage(account_id, credential_id, since)

    def read_recent_usage(
        self, account_id: "UUID", scope: "UsageScope", pk: object
    ) -> "Mapping[str, RecentUsage]":
        from routing.history.activity import read_recent_usage

        return read_recent_usage(account_id, scope, pk)
