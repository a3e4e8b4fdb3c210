from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from django.apps import AppConfig

if TYPE_CHECKING:
    from datetime import datetime
    from uuid import UUID

    from accounts.ports.byok_usage import ByokUsage
    from accounts.ports.known_providers import KeyTrial


class RoutingConfig(AppConfig):
    """What can answer and who should."""

    name = "routing"

    def ready(self) -> None:
        from accounts.ports.byok_usage import count_usage_by
        from accounts.ports.known_catalogue import know_catalogue_by
        from accounts.ports.known_models import know_models_by
        from accounts.ports.known_providers import know_providers_by
        from accounts.services.workspaces import WorkspaceBelongings, register_belongings
        from gateway.health import register_check
        from gateway.http.vendor_names import register_router_check

        register_check("catalogue", True, _catalogue_report)
        know_models_by(_names_a_model)
        register_router_check(_stands_for_a_router)
        register_belongings("presets", WorkspaceBelongings(_presets, _clear_presets))
        know_catalogue_by(models=_model_slugs, providers=_provider_slugs)
        know_providers_by(_names_a_provider, try_key=_try_key)
        count_usage_by(_byok_usage)


def _catalogue_report() -> dict[str, Any]:
    """Ready even when empty: an operator loads it while the server runs."""
    from routing.catalogue.snapshot import catalogue

    snapshot = catalogue.current()
    return {"ok": True, "version": snapshot.version, "endpoints": snapshot.endpoint_count}


def _presets() -> Any:
    from routing.presets.models import Preset

    return Preset.objects.all()


def _clear_presets(workspace_id: "UUID") -> int:
    from routing.presets.services import delete_workspace_presets

    return delete_workspace_presets(workspace_id)


def _names_a_model(name: str) -> bool:
    from routing.known_models import names_a_model

    return names_a_model(name)


def _stands_for_a_router(theirs: str, ours: str) -> bool:
    from routing.known_models import stands_for_a_router

    return stands_for_a_router(theirs, ours)


def _model_slugs(names: Iterable[str]) -> Mapping[str, str]:
    from routing.known_catalogue import model_slugs

    return model_slugs(names)


def _provider_slugs(names: Iterable[str]) -> Mapping[str, str]:
    from routing.known_catalogue import provider_slugs

    return provider_slugs(names)


def _names_a_provider(slug: str) -> bool:
    from routing.known_providers import names_a_provider

    return names_a_provider(slug)


def _try_key(slug: str, key: str) -> "KeyTrial":
    from routing.known_providers import try_key

    return try_key(slug, key)


def _byok_usage(account_id: "UUID", credential_id: "UUID", since: "datetime") -> "ByokUsage":
    from routing.metering.byok_usage import usage_of

    return usage_of(account_id, credential_id, since)
