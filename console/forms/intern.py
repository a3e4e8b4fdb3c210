"""What may be said of an intern: what a new one is made of, and what changes of one."""

from typing import Any, Final

from django import forms
from django.core.validators import RegexValidator

from accounts.admin.fields import ModelField
from console.forms.workspace import fill_workspaces
from console.scope import Scope
from interns.creation import NewIntern
from interns.models.intern import (
    DESCRIPTION_CHARS_MAX,
    INSTRUCTIONS_CHARS_MAX,
    MODEL_CHARS_MAX,
    NAME_CHARS_MAX,
)
from interns.views.schemas.intern import NAME_CHARS_MIN, NAME_PATTERN

_NAME_HELP: Final = "Small letters and digits, with single hyphens between, such as notes-2."


class InternForm(forms.Form):
    """What an intern is for, and whom it asks."""

    description = forms.CharField(
        label="What it is for", required=False, max_length=DESCRIPTION_CHARS_MAX
    )
    model = ModelField(
        label="Model",
        required=False,
        max_length=MODEL_CHARS_MAX,
        widget=forms.TextInput(attrs={"list": "models"}),
        help_text="Empty: the default model of its workspace.",
    )
    instructions = forms.CharField(
        label="Standing instructions",
        required=False,
        max_length=INSTRUCTIONS_CHARS_MAX,
        widget=forms.Textarea(attrs={"rows": 5}),
    )

    def read_changes(self) -> dict[str, Any]:
        """The columns of a changed intern."""
        given = self.cleaned_data
        return {
            "description": given["description"],
            "model": given["model"] or None,
            "instructions": given["instructions"] or None,
        }


class NewInternForm(InternForm):
    """The same of a new one, with its name and its workspace."""

    name = forms.CharField(
        label="Name",
        min_length=NAME_CHARS_MIN,
        max_length=NAME_CHARS_MAX,
        validators=[RegexValidator(NAME_PATTERN, _NAME_HELP)],
        help_text=_NAME_HELP,
    )
    workspace = forms.ChoiceField(label="Workspace")

    field_order = ("name", "workspace", "model", "description", "instructions")

    def __init__(self, scope: Scope, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.workspaces = fill_workspaces(self.fields["workspace"], scope)

    def clean(self) -> dict[str, Any]:
        """One that knows no model to ask boots, and answers nothing."""
        given: dict[str, Any] = super().clean() or {}
        workspace = self.workspaces.get(given.get("workspace", ""))
        if workspace and given.get("model") == "" and not workspace.default_text_model:
            self.add_error("model", f"{workspace.name} has no default model: name one here.")
        return given

    def read(self) -> NewIntern:
        return NewIntern(name=self.cleaned_data["name"], provision=True, **self.read_changes())
