"""What every page of the admin shares: its name, and bases for the apps' own pages."""

import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from django.contrib import admin
from django.db.models import JSONField, Model, QuerySet
from django.forms import ModelForm, Textarea
from django.http import HttpRequest

from gateway.http.jsonio import format_usd

# django-stubs makes these generic; Django itself does not let them be subscripted.
if TYPE_CHECKING:
    _ModelAdmin = admin.ModelAdmin[Any]
    Form = ModelForm[Any]
    TabularInline = admin.TabularInline[Any, Any]
else:
    # The theme's, which look as the pages around them.
    from unfold.admin import ModelAdmin as _ModelAdmin
    from unfold.admin import TabularInline

    Form = ModelForm

admin.site.site_header = "Routing Gateway"
admin.site.site_title = "Routing Gateway"
admin.site.index_title = "Operation"
admin.site.site_url = "/"


class PageAdmin(_ModelAdmin):
    """Base of all pages. Lists do not count the whole table beside what was searched for."""

    # What nobody may do here, whatever they may do elsewhere, is False.
    can_add = can_change = can_delete = True
    # What a new row is typed into, and what those see who may not change one, where that differs
    # from `form` and `fields`.
    new_form: Any = None
    new_fields: tuple[str, ...] = ()
    viewer_fields: tuple[str, ...] = ()
    # Only shown once the row is there.
    fixed_fields: tuple[str, ...] = ()
    # What rows are named after, read with them.
    related: tuple[str, ...] = ()
    show_full_result_count = False
    list_per_page = 50
    formfield_overrides = {JSONField: {"widget": Textarea(attrs={"rows": 3, "cols": 90})}}

    def has_add_permission(self, request: HttpRequest) -> bool:
        return self.can_add and super().has_add_permission(request)

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return self.can_change and super().has_change_permission(request, obj)

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return self.can_delete and super().has_delete_permission(request, obj)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        rows: QuerySet[Any] = super().get_queryset(request)
        return rows.select_related(*self.related) if self.related else rows

    def get_form(self, request: Any, obj: Any = None, change: bool = False, **options: Any) -> Any:
        if obj is None and self.new_form is not None:
            options.setdefault("form", self.new_form)
        return super().get_form(request, obj, change, **options)

    def get_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        if obj is None:
            return self.new_fields or super().get_fields(request, obj)
        if self.viewer_fields and not self.has_change_permission(request, obj):
            return self.viewer_fields
        return super().get_fields(request, obj)

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        shown = super().get_readonly_fields(request, obj)
        return (*shown, *self.fixed_fields) if obj else shown

    def get_inlines(self, request: HttpRequest, obj: Any) -> Any:
        """Nothing belongs to a row that is not there yet."""
        return self.inlines if obj else ()

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        """Each as if it were deleted alone."""
        for row in queryset:
            self.delete_model(request, row)

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        """Write the fields that were changed and no others.

        The rest of the row may have moved since it was read: totals, holds, a new key string.
        """
        if not change:
            super().save_model(request, obj, form, change)
        elif fields := changed_fields(obj, form):
            obj.save(update_fields=fields)

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        """Also by id, where ids are UUIDs."""
        if self.model._meta.pk.get_internal_type() == "UUIDField":
            try:
                return queryset.filter(pk=uuid.UUID(search_term.strip())), False
            except ValueError:
                pass
        return super().get_search_results(request, queryset, search_term)


class KeptRowsAdmin(PageAdmin):
    """Rows that are deleted by services, which keep them and what belongs to them."""

    def get_deleted_objects(
        self, objs: Any, request: HttpRequest
    ) -> tuple[list[str], dict[str, int], set[str], list[str]]:
        """The rows alone: what belongs to them does not stand in the way."""
        names = [str(row) for row in objs]
        return names, {str(self.opts.verbose_name_plural): len(names)}, set(), []


class ReadOnlyAdmin(PageAdmin):
    """Rows that only the gateway itself writes."""

    actions = None
    can_add = can_change = can_delete = False


class ReadOnlyInline(TabularInline):
    """Rows that belong to a page's own, to look at: each has a page where it is changed.

    Editing them in place would make the form grow with their number, past what may be posted.
    """

    extra = 0
    can_delete = False
    show_change_link = True
    # What rows are named after, read with them.
    related: tuple[str, ...] = ()

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        rows: QuerySet[Any] = super().get_queryset(request)
        return rows.select_related(*self.related)

    def get_readonly_fields(self, request: HttpRequest, obj: object = None) -> Any:
        return self.fields or ()

    def has_add_permission(self, request: HttpRequest, obj: object = None) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: object = None) -> bool:
        return False


def changed_fields(obj: Model, form: Any) -> list[str]:
    """The names of the model's own fields that the form changes."""
    own = {field.name for field in obj._meta.concrete_fields}
    return [name for name in form.changed_data if name in own]


def count_column(field: str, label: str) -> Callable[[Any, Any], int]:
    """An annotated number: a method for a page's class."""

    @admin.display(description=label, ordering=field)
    def column(page: Any, row: Any) -> int:
        return int(getattr(row, field))

    return column


def usd_column(field: str, label: str) -> Callable[[Any, Any], str]:
    """A nano-USD field or annotation as plain USD: a method for a page's class."""

    @admin.display(description=f"{label} (USD)", ordering=field)
    def column(page: Any, row: Any) -> str:
        amount_nano = getattr(row, field)
        return page.get_empty_value_display() if amount_nano is None else format_usd(amount_nano)

    return column
