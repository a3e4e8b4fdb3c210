from django.apps import AppConfig


class ConsoleConfig(AppConfig):
    """Pages for everybody who signs in: what was spent, by whom, and why requests went where."""

    name = "console"
