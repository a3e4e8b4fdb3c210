"""Archives of interns' disks: what is kept, until when, and those that an operator made."""

import re
from typing import Any, Final

from django import forms
from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest

from accounts.services.records import operator_actor
from gateway.admin import Form, PageAdmin
from interns.archives.service import ArchiveNotExpected, add_archive, delete_archive
from interns.models import Intern, Status, WorkspaceArchive

_SHA256: Final = re.compile(r"[0-9a-f]{64}")
_FACTS: Final = (
    *("id", "intern_id", "intern_name", "account", "workspace_id", "uri", "sha256", "bytes"),
    *("files", "source", "created_at", "expires_at"),
)


class ArchiveForm(Form):
    """An archive made by hand, for an intern whose teardown waits for one."""

    intern = forms.ModelChoiceField(
        Intern.objects.filter(status=Status.DESTROY_FAILED),
        help_text="Interns whose teardown failed.",
    )

    class Meta:
        model = WorkspaceArchive
        fields = ("uri", "sha256", "bytes")

    def clean_sha256(self) -> str:
        sha256: str = self.cleaned_data["sha256"].lower()
        if not _SHA256.fullmatch(sha256):
            raise forms.ValidationError("64 hexadecimal digits.")
        return sha256


@admin.register(WorkspaceArchive)
class WorkspaceArchiveAdmin(PageAdmin):
    """Newest first. `restore_intern_workspace` brings the files back."""

    list_display = (
        *("intern_name", "account", "created_at", "expires_at", "bytes", "files", "source", "uri"),
    )
    list_filter = ("source", "created_at")
    list_select_related = ("account",)
    date_hierarchy = "created_at"
    ordering = ("-created_at", "pk")
    search_fields = ("intern_name", "account__name", "sha256")
    search_help_text = "Name of the intern, account, checksum or id"

    def get_form(self, request: Any, obj: Any = None, change: bool = False, **options: Any) -> Any:
        chosen = {} if obj else {"form": ArchiveForm}
        return super().get_form(request, obj, change, **{**options, **chosen})

    def get_fields(self, request: HttpRequest, obj: object = None) -> Any:
        return _FACTS if obj else ("intern", "uri", "sha256", "bytes")

    def get_readonly_fields(self, request: HttpRequest, obj: object = None) -> Any:
        return _FACTS if obj else ()

    def has_change_permission(self, request: HttpRequest, obj: object = None) -> bool:
        return False

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        given = form.cleaned_data
        try:
            made = add_archive(
                intern=given["intern"],
                uri=given["uri"],
                sha256=given["sha256"],
                size=given["bytes"],
                by=operator_actor(request.user),
            )
        except ArchiveNotExpected as error:
            messages.error(request, str(error))
            return
        obj.pk, obj.intern_name, obj.created_at = made.pk, made.intern_name, made.created_at

    def delete_model(self, request: HttpRequest, obj: Any) -> None:
        if not delete_archive(obj, by=operator_actor(request.user)):
            messages.error(request, "The store does not let go of it; see the log")

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        for row in queryset:
            self.delete_model(request, row)
