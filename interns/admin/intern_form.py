"""The form of an intern: its settings. What it does is for the page's actions."""

from typing import Any

from django import forms

from accounts.admin.fields import UsdField
from gateway.admin import Form
from gateway.http.jsonio import format_usd
from interns.keys import read_budget
from interns.models import Intern
from interns.views.body import MODEL_PATTERN

FIELDS = ("description", "instructions", "model", "budget_usd", "budget_reset")


class InternForm(Form):
    """`budget_usd` is the budget as people write it."""

    instructions = forms.CharField(
        required=False,
        max_length=100_000,
        widget=forms.Textarea(attrs={"rows": 6, "cols": 90}),
        help_text="Take effect at the next boot.",
    )
    model = forms.RegexField(
        MODEL_PATTERN,
        required=False,
        max_length=200,
        help_text="author/slug; empty for the workspace's default. Takes effect at the next boot.",
    )
    budget_usd = UsdField(
        label="Budget in USD",
        required=False,
        min_value=0,
        help_text="The limit of the intern's own key; the intern is suspended when it is used up. "
        "Empty for none.",
    )

    class Meta:
        model = Intern
        fields = FIELDS

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        # A manager may have changed the key since.
        budget_nano, self.initial["budget_reset"] = read_budget(self.instance)
        if budget_nano is not None and "budget_usd" in self.fields:
            self.initial["budget_usd"] = format_usd(budget_nano)

    def clean(self) -> dict[str, Any]:
        fields: dict[str, Any] = super().clean() or self.cleaned_data
        if fields.get("budget_reset") and fields.get("budget_usd") is None:
            self.add_error("budget_reset", "There is no budget to reset.")
        return fields

    def changes(self) -> dict[str, Any]:
        """The columns that differ; a budget is one thing, as the key has it."""
        fields = {name: self.cleaned_data[name] for name in self.changed_data}
        if fields.keys() & {"budget_usd", "budget_reset"}:
            fields["budget_nano"] = self.cleaned_data["budget_usd"]
            fields["budget_reset"] = self.cleaned_data["budget_reset"]
            fields.pop("budget_usd", None)
        for name in ("instructions", "model", "budget_reset"):
            if name in fields:
                fields[name] = fields[name] or None
        return fields
