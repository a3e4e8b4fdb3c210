from typing import TYPE_CHECKING, Any

from django.apps import AppConfig
from django.conf import settings

if TYPE_CHECKING:
    from uuid import UUID


class InternsConfig(AppConfig):
    """Agents with a life of their own, and their secrets."""

    name = "interns"

    def ready(self) -> None:
        from accounts.services.workspaces import (
            WorkspaceBelongings,
            register_belongings,
            register_hindrance,
        )
        from gateway.doctor.findings import register
        from gateway.metrics.scrape import register_source
        from gateway.server.front import answer_hosts_by, limit_port
        from interns.models import Intern
        from routing.history.erasure import register_eraser

        secrets = WorkspaceBelongings(_list_secrets, _delete_secrets, at_once=True)
        register_belongings("vault_secrets", secrets)
        register_belongings("vaults", WorkspaceBelongings(_list_vaults, _delete_vaults))
        register_hindrance("interns", Intern.objects.all)
        answer_hosts_by(f".{settings.INTERN_DOMAIN}", _answer_host)
        if settings.INTERN_PORT:
            from interns.runtime.supervisor_handle import list_agent_calls

            limit_port(settings.INTERN_PORT, list_agent_calls("/api/v1", "[0-9a-f-]{36}"))
        register_source("interns", _read_interns)
        register_eraser("sessions", _erase_sessions)
        register("sandbox", "interns.runtime.sandbox.examine_sandbox")
        if settings.INTERN_RUNTIME == "kubernetes":
            # Its client takes two seconds to load, for which no request should wait.
            from interns.runtime.driver import current_driver

            current_driver()
            register("proxies", "interns.runtime.cluster.examination.examine_proxies")


def _list_secrets() -> Any:
    from interns.vault.service import list_workspace_secrets

    return list_workspace_secrets()


def _delete_secrets(workspace_id: "UUID") -> int:
    gone: int = _list_secrets().filter(workspace=workspace_id).delete()[0]
    return gone


def _list_vaults() -> Any:
    from interns.models import Vault

    return Vault.objects.filter(intern__isnull=True)


def _delete_vaults(workspace_id: "UUID") -> int:
    gone: int = _list_vaults().filter(workspace=workspace_id).delete()[0]
    return gone


def _erase_sessions(user: Any) -> int:
    from gateway.database.db import Lane, run_queries
    from interns.chat.run_cleanup import erase_sessions

    return run_queries(Lane.OPERATOR, lambda: erase_sessions(user))


def _answer_host(request: object) -> Any:
    from interns.views.hosts import host_view

    return host_view(request)


def _read_interns() -> Any:
    from interns.metrics import read_interns

    return read_interns()
