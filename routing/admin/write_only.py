"""Credentials on a page: what goes in is never shown again."""

from typing import Any, ClassVar

from django import forms
from django.http import HttpRequest

from gateway.admin import PageAdmin
from gateway.http.jsonio import JsonObject
from routing.admin.rows import CheckedForm


class WriteOnlyForm(CheckedForm):
    """A form with a credential that is only written.

    The field must not be named `credential`: pages of people who may only look show what the row
    answers to a field's name. `fixed_name` is the field that a row keeps once it is made.
    """

    fixed_name: ClassVar[str]
    file_names = {"new_credential": "credential"}
    new_credential = forms.CharField(
        required=False,
        max_length=10_000,
        widget=forms.PasswordInput(attrs={"autocomplete": "new-password", "size": 60}),
        help_text="Kept encrypted and never shown. Empty keeps what is set.",
    )

    def describe_entry(self, fields: JsonObject) -> JsonObject:
        entry = super().describe_entry(fields)
        name = self.fixed_name
        entry[name] = fields.get(name) or getattr(self.instance, name)
        return {name: value for name, value in entry.items() if name != "credential" or value}


class WriteOnlyAdmin(PageAdmin):
    """Whoever may only look does not see the fields that are only written."""

    write_only_fields: ClassVar[tuple[str, ...]] = ("new_credential",)

    def get_fieldsets(self, request: HttpRequest, obj: object = None) -> Any:
        if obj is None or self.has_change_permission(request, obj):
            return self.fieldsets
        hidden = self.write_only_fields
        return [
            (title, {**options, "fields": [f for f in options["fields"] if f not in hidden]})
            for title, options in self.fieldsets or ()
        ]
