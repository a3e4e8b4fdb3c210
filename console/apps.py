from importlib import import_module

from django.apps import AppConfig


class ConsoleConfig(AppConfig):
    """Pages for everybody who signs in: what was spent, by whom, and why requests went where."""

    name = "console"

    def ready(self) -> None:
        # It listens to who signs in.
        import_module("console.sessions")
