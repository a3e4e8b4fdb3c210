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
            Belongings,
            goes_with_workspaces,
            keeps_workspaces,
        )
        from gateway.http.front import answer_hosts_by

        goes_with_workspaces("vault_secrets", Belongings(_vaults, _clear_vault))
        keeps_workspaces("interns", _interns)
        answer_hosts_by(f".{settings.INTERN_DOMAIN}", _answer_host)


def _interns() -> Any:
    from interns.models import Intern

    return Intern.objects.all()


def _vaults() -> Any:
    from interns.models import Vault

    return Vault.objects.all()


def _clear_vault(workspace_id: "UUID") -> int:
    from interns.vault.service import clear_workspace

    return clear_workspace(workspace_id)


def _answer_host(request: Any) -> Any:
    from interns.chat.hosts import host_view

    return host_view(request)
