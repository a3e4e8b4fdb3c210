from django.apps import AppConfig


class GatewayConfig(AppConfig):
    """The shared half: settings, HTTP manners, process entry points. It has no tables."""

    name = "gateway"

    def ready(self) -> None:
        from gateway import checks  # noqa: F401 - Importing registers the system checks.
        from gateway.metrics import host, losses

        host.register()
        losses.register()
