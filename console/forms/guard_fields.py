"""The external guards of a guardrail as rows of its form."""

from typing import Any, Final

from django import forms

from accounts.external_guards import QUESTION
from accounts.models import Guardrail
from gateway.http.jsonio import JsonObject

# Of each kind what it is, and what it is asked by.
KINDS: Final = {
    "moderation": ("Moderation by the provider", "provider"),
    "decision": ("A question to the model", "model"),
}
PREFIX: Final = "guard_"
_ACTIONS: Final = [("", "Off"), ("flag", "Note"), ("block", "Block")]
_SIDES: Final = [("both", "Both"), ("input", "Requests"), ("output", "Answers")]
_FALLBACKS: Final = [("closed", "Block"), ("open", "Let through")]
_COLUMNS: Final = ("who", "on", "action", "threshold", "timeout_ms", "on_failure", "shadow")


def add_guard_fields(form: forms.Form) -> None:
    for kind, (label, _) in KINDS.items():
        made: dict[str, forms.Field] = {
            "who": forms.CharField(required=False, max_length=200, label=label),
            "on": forms.ChoiceField(choices=_SIDES, required=False, label=f"{label}: where"),
            "action": forms.ChoiceField(choices=_ACTIONS, required=False, label=f"{label}: then"),
            "timeout_ms": forms.IntegerField(
                min_value=100, max_value=30_000, required=False, label=f"{label}: time in ms"
            ),
            "on_failure": forms.ChoiceField(
                choices=_FALLBACKS, required=False, label=f"{label}: without an answer"
            ),
            "shadow": forms.BooleanField(required=False, label=f"{label}: on trial"),
        }
        if kind == "decision":
            made["threshold"] = forms.FloatField(
                min_value=0.001, max_value=1, required=False, label=f"{label}: from"
            )
            form.fields[f"{PREFIX}question"] = forms.CharField(
                required=False,
                max_length=4_000,
                label="What the model is asked",
                widget=forms.Textarea(attrs={"rows": 2, "placeholder": QUESTION}),
            )
        form.fields |= {f"{PREFIX}{kind}_{name}": field for name, field in made.items()}


def list_guard_rows(form: forms.Form) -> list[tuple[str, *tuple[forms.BoundField | None, ...]]]:
    """Of each kind its label and its fields, in the order of the table's columns."""
    rows: list[tuple[str, *tuple[forms.BoundField | None, ...]]] = []
    for kind, (label, _) in KINDS.items():
        names = [f"{PREFIX}{kind}_{column}" for column in _COLUMNS]
        fields = [form[name] if name in form.fields else None for name in names]
        rows.append((label, *fields))
    return rows


def build_guards(said: JsonObject, guardrail: Guardrail | None) -> list[JsonObject] | None:
    """As the API is sent them; what the form does not ask for stays as it is."""
    known = {each["kind"]: each for each in (guardrail and guardrail.external_guards) or ()}
    guards = []
    for kind, (_, asked_by) in KINDS.items():
        given = {name: said.get(f"{PREFIX}{kind}_{name}") for name in _COLUMNS}
        if not given["action"]:
            continue
        given[asked_by] = given.pop("who")
        if kind == "decision":
            given["question"] = said[f"{PREFIX}question"]
        own = {name: value for name, value in given.items() if value not in (None, "")}
        guards.append({**_without_question(known.get(kind, {})), "kind": kind, **own})
    return guards or None


def _without_question(guard: JsonObject) -> JsonObject:
    return {name: value for name, value in guard.items() if name != "question"}


def read_guards(guardrail: Guardrail) -> JsonObject:
    """What the fields begin with."""
    initial: JsonObject = {}
    for guard in guardrail.external_guards or ():
        kind = guard["kind"]
        own: dict[str, Any] = {**guard, "who": guard[KINDS[kind][1]]}
        initial |= {f"{PREFIX}{kind}_{name}": own.get(name) for name in _COLUMNS}
        if kind == "decision":
            initial[f"{PREFIX}question"] = guard.get("question")
    return initial
