from importlib import import_module
from typing import Any

from django.apps import AppConfig


class AccountsConfig(AppConfig):
    """Who calls, what they own, and the books."""

    name = "accounts"

    def ready(self) -> None:
        from gateway.http.once import register_carrier

        register_carrier(_carry_out_once)
        # It listens to who signs in.
        import_module("accounts.sign_in")


def _carry_out_once(view: Any, act: Any, request: Any, **path: str) -> Any:
    from accounts.views.once import carry_out_once

    return carry_out_once(view, act, request, **path)
