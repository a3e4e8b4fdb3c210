"""Taking rows of the catalogue out of service, and putting them back."""

from typing import Any

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest

from gateway.admin import PageAdmin
from routing.entities.vocabulary import STATUS_DISABLED


class SwitchedAdmin(PageAdmin):
    """Pages of rows with a `status`. Web processes follow within a second."""

    @admin.action(description="Disable", permissions=["change"])
    def disable(self, request: HttpRequest, rows: QuerySet[Any]) -> None:
        self._switch(request, rows, STATUS_DISABLED, "Disabled")

    @admin.action(description="Enable", permissions=["change"])
    def enable(self, request: HttpRequest, rows: QuerySet[Any]) -> None:
        self._switch(request, rows, 0, "Enabled")

    def _switch(self, request: HttpRequest, rows: QuerySet[Any], status: int, verb: str) -> None:
        moving = list(rows.exclude(status=status))
        self.model._default_manager.filter(pk__in=[row.pk for row in moving]).update(status=status)
        for row in moving:
            self.log_change(request, row, f"{verb}.")
        messages.success(request, f"{verb} {len(moving)}.")
