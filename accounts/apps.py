from importlib import import_module
from typing import Any

from django.apps import AppConfig


class AccountsConfig(AppConfig):
    """Who calls, what they own, and the books."""

    name = "accounts"

    def ready(self) -> None:
        from gateway.http.once import register_carrier
        from gateway.metrics.scrape import register_source

        # What these import needs models, which are not there yet.
        def carry_out(view: Any, act: Any, request: Any, **path: str) -> Any:
            from accounts.views.once import carry_out_once

            return carry_out_once(view, act, request, **path)

        def read_metrics() -> Any:
            from accounts.services.books.metrics import read_books

            return read_books()

        register_carrier(carry_out)
        register_source("books", read_metrics)
        # They listen to who signs in.
        import_module("accounts.sign_in")
        import_module("accounts.people.records")
