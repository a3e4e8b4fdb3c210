"""Forms of catalogue rows, held to the rules of a catalogue file.

Requests are served from whatever stands in the rows, so a list that is no list must not get there.
"""

from typing import ClassVar

from django.db.models import Model
from pydantic import BaseModel, ValidationError

from gateway.admin import Form
from gateway.http.jsonio import JsonObject


class CheckedForm(Form):
    """A form whose values must fit `spec`; what the spec puts in order is taken over.

    `file_names` are the fields that a catalogue file calls differently.
    """

    spec: ClassVar[type[BaseModel]]
    file_names: ClassVar[dict[str, str]] = {}

    def clean(self) -> JsonObject:
        fields: JsonObject = super().clean() or self.cleaned_data
        if self.errors:
            return fields
        # An empty JSON field that may not be null has its default, such as an empty list.
        columns = {column.name: column for column in self._meta.model._meta.concrete_fields}
        fields |= {
            name: columns[name].get_default()
            for name, value in fields.items()
            if value is None and name in columns and not columns[name].null
        }
        try:
            entry = self.spec.model_validate(self.describe_entry(fields))
        except ValidationError as error:
            self._add_errors(error)
            return fields
        names = {self.file_names.get(name, name): name for name in fields}
        for name, value in entry.model_dump(exclude_unset=True).items():
            if name in names and not isinstance(fields[names[name]], Model):
                fields[names[name]] = value
        return fields

    def describe_entry(self, fields: JsonObject) -> JsonObject:
        """The entry of a catalogue file that says the same as the form."""
        named = {self.file_names.get(name, name): value for name, value in fields.items()}
        known = self.spec.model_fields
        return {name: value for name, value in named.items() if name in known and value is not None}

    def _add_errors(self, error: ValidationError) -> None:
        form_names = {name: form_name for form_name, name in self.file_names.items()}
        for detail in error.errors(include_url=False):
            field, *place = detail["loc"] or ("",)
            text = detail["msg"].removeprefix("Value error, ")
            where = ".".join(map(str, place))
            name = form_names.get(str(field), str(field))
            self.add_error(
                name if name in self.fields else None, f"{where}: {text}" if where else text
            )
