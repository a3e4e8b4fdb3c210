"""Pages whose changes are audit records: rows that say who may do what."""

from typing import Any, ClassVar

from django.db import transaction
from django.http import HttpRequest

from accounts.services.records import operator_actor, read_fields, record_change
from gateway.admin import PageAdmin


class RecordedMixin:
    """Writes a record of what is made, changed and deleted. `facts` are the attributes it tells."""

    object_type: ClassVar[str]
    facts: ClassVar[tuple[str, ...]]

    def find_account_id(self, obj: Any) -> Any:
        return obj.account_id

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        with transaction.atomic():
            before = None
            if change:
                before = read_fields(type(obj)._default_manager.get(pk=obj.pk), self.facts)
            self.save_row(request, obj, form, change)
            self._record(request, obj, "updated" if change else "created", before)

    def save_row(self, request: HttpRequest, obj: object, form: object, change: bool) -> None:
        save: Any = super().save_model  # type: ignore[misc] # That of the page it is mixed into.
        save(request, obj, form, change)

    def delete_model(self, request: HttpRequest, obj: Any) -> None:
        with transaction.atomic():
            self._record(request, obj, "deleted", read_fields(obj, self.facts))
            self.delete_row(request, obj)

    def delete_row(self, request: HttpRequest, obj: object) -> None:
        delete: Any = super().delete_model  # type: ignore[misc] # Likewise the page's.
        delete(request, obj)

    def _record(self, request: HttpRequest, obj: Any, action: str, before: Any) -> None:
        record_change(
            by=operator_actor(request.user),
            action=action,
            object_type=self.object_type,
            object_id=obj.pk,
            account_id=self.find_account_id(obj),
            before=before,
            after=None if action == "deleted" else read_fields(obj, self.facts),
        )


class RecordedAdmin(RecordedMixin, PageAdmin):
    """The page of such rows."""
