from django.apps import AppConfig
from django.contrib.admin.apps import SimpleAdminConfig

_EXAMINATIONS = {
    "settings": "machine.examine_settings",
    "database": "stores.examine_database",
    "migrations": "stores.examine_migrations",
    "redis": "stores.examine_hint_store",
    "disk": "machine.examine_disk",
    "processes": "machine.examine_processes",
    "address": "machine.examine_address",
    "backups": "machine.examine_backups",
}


class GatewayConfig(AppConfig):
    """The shared half: settings, HTTP manners, process entry points. It has no tables."""

    name = "gateway"

    def ready(self) -> None:
        from gateway import checks  # noqa: F401 - Importing registers the system checks.
        from gateway.doctor import findings
        from gateway.metrics import host, losses

        host.register()
        for subject, function in _EXAMINATIONS.items():
            findings.register(subject, f"gateway.doctor.{function}")
        losses.register()


class GatewayAdminConfig(SimpleAdminConfig):
    """Django's admin with its theme. Nothing of it is loaded before somebody asks for the site."""

    default_site = "accounts.people.admin_site.OperatorSite"
