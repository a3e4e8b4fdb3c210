from importlib import import_module
from typing import Any

from django.apps import AppConfig


class AccountsConfig(AppConfig):
    """Who calls, what they own, and the books."""

    name = "accounts"

    def ready(self) -> None:
        from gateway.http.once import register_carrier
        from gateway.metrics.scrape import register_source

        register_carrier(_carry_out_once)
        register_source("books", _read_books)
        # They listen to who signs in.
        import_module("accounts.sign_in")
        import_module("accounts.people.records")


def _carry_out_once(view: Any, act: Any, request: Any, **path: str) -> Any:
    from accounts.views.once import carry_out_once

    return carry_out_once(view, act, request, **path)


def _read_books() -> Any:
    from accounts.metrics import read_books

    return read_books()
