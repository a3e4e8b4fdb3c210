"""Forms of catalogue rows, held to the rules of a catalogue file.

Requests are served from whatever stands in the rows, so a list that is no list must not get there.
"""

from typing import Any, ClassVar

from django.db.models import Model
from pydantic import BaseModel, ValidationError

from gateway.admin import Form


class CheckedForm(Form):
    """A form whose values must fit `spec`; what the spec puts in order is taken over.

    `file_names` are the fields that a catalogue file calls differently.
    """

    spec: ClassVar[type[BaseModel]]
    file_names: ClassVar[dict[str, str]] = {}

    def clean(self) -> dict[str, Any]:
        said: dict[str, Any] = super().clean() or self.cleaned_data
        if self.errors:
            return said
        said |= self._emptied(said)
        try:
            checked = self.spec.model_validate(self.described(said))
        except ValidationError as error:
            self._tell(error)
            return said
        in_order = checked.model_dump(exclude_unset=True)
        names = {self.file_names.get(name, name): name for name in said}
        kept = {names[name]: value for name, value in in_order.items() if name in names}
        return said | {n: v for n, v in kept.items() if not isinstance(said[n], Model)}

    def described(self, said: dict[str, Any]) -> dict[str, Any]:
        """The entry of a catalogue file that says the same as the form."""
        named = {self.file_names.get(name, name): value for name, value in said.items()}
        known = self.spec.model_fields
        return {name: value for name, value in named.items() if name in known and value is not None}

    def _emptied(self, said: dict[str, Any]) -> dict[str, Any]:
        """An empty JSON field that may not be null has its default, such as an empty list."""
        fields = {field.name: field for field in self._meta.model._meta.concrete_fields}
        return {
            name: fields[name].get_default()
            for name, value in said.items()
            if value is None and name in fields and not fields[name].null
        }

    def _tell(self, error: ValidationError) -> None:
        rows = {name: row for row, name in self.file_names.items()}
        for detail in error.errors(include_url=False):
            field, *place = detail["loc"] or ("",)
            text = detail["msg"].removeprefix("Value error, ")
            where = ".".join(map(str, place))
            name = rows.get(str(field), str(field))
            self.add_error(
                name if name in self.fields else None, f"{where}: {text}" if where else text
            )
