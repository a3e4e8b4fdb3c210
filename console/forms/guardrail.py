"""The rules and external guards of a guardrail as fields of a form, and the form as a body of the
API."""

from typing import Any, Final

from django import forms

from accounts.admin.fields import UsdField, WordsField, build_checkboxes
from accounts.external_guards import QUESTION
from accounts.models import Guardrail
from accounts.models.guardrail import DATA_REGIONS
from console.queries.guardrails import BUILTINS
from gateway.http.jsonio import JsonObject, format_usd

# Of each kind what it is, and what it is asked by.
KINDS: Final = {
    "moderation": ("Moderation by the provider", "provider"),
    "decision": ("A question to the model", "model"),
}
PREFIX: Final = "guard_"
_GUARD_STEPS: Final = [("", "Off"), ("flag", "Note"), ("block", "Block")]
_SIDES: Final = [("both", "Both"), ("input", "Requests"), ("output", "Answers")]
_FALLBACKS: Final = [("closed", "Block"), ("open", "Let through")]
_COLUMNS: Final = ("who", "on", "action", "threshold", "timeout_ms", "on_failure", "shadow")
_ACTIONS: Final = [
    ("", "Let through"),
    ("flag", "Note it"),
    ("redact", "Redact it"),
    ("block", "Block the request"),
]
_OUTPUT_ACTIONS: Final = [*_ACTIONS[:3], ("block", "Withhold the answer")]
_PLACES: Final = [("content_filters", "in requests"), ("output_filters", "in answers")]
_SPARE_ROWS: Final = 2
_GIVEN_ROWS_MAX: Final = 200
_ZDR: Final = ("anthropic", "openai", "google", "xai", "other")
_TRAINING: Final = {
    "enable_paid_model_training": "paid models that train on prompts",
    "enable_free_model_training": "free models that train on prompts",
    "enable_free_model_publication": "free models that publish prompts",
}
_NAMING: Final = ("name", "description")
_SWITCHES: Final = ("output_shadow", "enforce_schema")
_LISTS: Final = ("allowed_models", "ignored_models", "allowed_providers", "ignored_providers")


def add_guard_fields(form: forms.Form) -> None:
    for kind, (label, _) in KINDS.items():
        made: dict[str, forms.Field] = {
            "who": forms.CharField(required=False, max_length=200, label=label),
            "on": forms.ChoiceField(choices=_SIDES, required=False, label=f"{label}: where"),
            "action": forms.ChoiceField(
                choices=_GUARD_STEPS, required=False, label=f"{label}: then"
            ),
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


def build_guards(cleaned: JsonObject, guardrail: Guardrail | None) -> list[JsonObject] | None:
    """As the API is sent them; what the form does not ask for stays as it is."""
    known = {each["kind"]: each for each in (guardrail and guardrail.external_guards) or ()}
    guards = []
    for kind, (_, asked_by) in KINDS.items():
        given = {name: cleaned.get(f"{PREFIX}{kind}_{name}") for name in _COLUMNS}
        if not given["action"]:
            continue
        given[asked_by] = given.pop("who")
        if kind == "decision":
            given["question"] = cleaned[f"{PREFIX}question"]
        own = {name: value for name, value in given.items() if value not in (None, "")}
        before = {name: value for name, value in known.get(kind, {}).items() if name != "question"}
        guards.append({**before, "kind": kind, **own})
    return guards or None


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


class GuardrailForm(forms.Form):
    """The rules of a guardrail, each in fields of its own."""

    name = forms.CharField(max_length=200, label="Name")
    description = forms.CharField(max_length=1000, required=False, label="What it is for")
    output_shadow = forms.BooleanField(
        required=False,
        label="Try the filters of answers",
        help_text="They change no answer. Each request's page tells what they would have done.",
    )
    enforce_schema = forms.BooleanField(
        required=False,
        label="Hold structured answers to their JSON schema",
        help_text="What does not fit is asked for once more. Both calls are charged.",
    )
    allowed_models = WordsField(
        required=False, label="Only these models", help_text="Ids, with commas between."
    )
    ignored_models = WordsField(required=False, label="Never these models")
    allowed_providers = WordsField(
        required=False,
        label="Only these providers",
        help_text="Short names, such as openai, with commas.",
    )
    ignored_providers = WordsField(required=False, label="Never these providers")
    allowed_data_regions = forms.MultipleChoiceField(
        choices=[(name, name) for name in DATA_REGIONS],
        widget=build_checkboxes(),
        required=False,
        label="Requests come in by these regions only",
    )
    zdr = forms.MultipleChoiceField(
        choices=[(name, name) for name in _ZDR],
        widget=build_checkboxes(),
        required=False,
        label="Zero data retention for models of",
    )
    forbidden_uses = forms.MultipleChoiceField(
        choices=list(_TRAINING.items()),
        widget=build_checkboxes(),
        required=False,
        label="Keep away from",
    )
    limit_usd = UsdField(
        required=False,
        label="Limit in USD",
        help_text="What each key or member under it may spend.",
        widget=forms.NumberInput(attrs={"step": "any"}),
    )
    reset_interval = forms.ChoiceField(
        required=False,
        label="The limit starts over",
        choices=[("", "No limit"), *Guardrail.Reset.choices],
    )

    def __init__(self, guardrail: Guardrail | None, data: Any = None) -> None:
        super().__init__(data, initial=_read_initial(guardrail) if guardrail else None)
        if guardrail is not None and guardrail.is_default:
            del self.fields["name"]
        for slug, label in BUILTINS.items():
            self.fields[f"builtin_{slug}"] = forms.ChoiceField(
                choices=_ACTIONS, required=False, label=label
            )
            self.fields[f"output_{slug}"] = forms.ChoiceField(
                choices=_OUTPUT_ACTIONS, required=False, label=f"{label} in answers"
            )
            self.fields[f"users_{slug}"] = forms.BooleanField(required=False, label=label)
        self._guardrail = guardrail
        add_guard_fields(self)
        known = len(_list_patterns(guardrail)) if guardrail else 0
        given = sum(name.startswith("pattern_") for name in self.data)
        self.pattern_rows = range(max(known + _SPARE_ROWS, min(given, _GIVEN_ROWS_MAX)))
        for row in self.pattern_rows:
            number = row + 1
            self.fields[f"pattern_{row}"] = forms.CharField(
                required=False, strip=False, label=f"Pattern {number}"
            )
            self.fields[f"label_{row}"] = forms.CharField(
                required=False, max_length=100, label=f"Label of pattern {number}"
            )
            self.fields[f"action_{row}"] = forms.ChoiceField(
                required=False, choices=_ACTIONS[1:], label=f"Action of pattern {number}"
            )
            self.fields[f"place_{row}"] = forms.ChoiceField(
                required=False, choices=_PLACES, label=f"Where pattern {number} is looked for"
            )

    def naming_fields(self) -> list[forms.BoundField]:
        return [self[name] for name in _NAMING if name in self.fields]

    def plain_fields(self) -> list[forms.BoundField]:
        """The fields that are no rows of filters, and do not name the guardrail."""
        rows = ("builtin_", "output_", "users_", "pattern_", "label_", "action_", "place_", PREFIX)
        others = [name for name in self.fields if name not in _NAMING]
        names = [name for name in others if name in _SWITCHES or not name.startswith(rows)]
        return [self[name] for name in names]

    def builtin_rows(self) -> list[tuple[str, *tuple[forms.BoundField, ...]]]:
        return [
            (label, *(self[f"{name}_{slug}"] for name in ("builtin", "users", "output")))
            for slug, label in BUILTINS.items()
        ]

    def guard_rows(self) -> list[tuple[str, *tuple[forms.BoundField | None, ...]]]:
        return list_guard_rows(self)

    def pattern_fields(self) -> list[tuple[forms.BoundField, ...]]:
        return [
            tuple(self[f"{name}_{row}"] for name in ("pattern", "label", "place", "action"))
            for row in self.pattern_rows
        ]

    def build_body(self) -> JsonObject:
        """What the API would be sent."""
        cleaned = self.cleaned_data
        body: JsonObject = {name: cleaned[name] for name in _LISTS}
        body["description"] = cleaned["description"] or None
        body["allowed_data_regions"] = cleaned["allowed_data_regions"] or None
        body |= {f"enforce_zdr_{group}": group in cleaned["zdr"] or None for group in _ZDR}
        body |= {name: False if name in cleaned["forbidden_uses"] else None for name in _TRAINING}
        limit_nano = cleaned["limit_usd"]
        body["limit_usd"] = None if limit_nano is None else float(format_usd(limit_nano))
        body["reset_interval"] = cleaned["reset_interval"] or None
        builtins = [
            {
                "slug": slug,
                "action": cleaned[f"builtin_{slug}"],
                "scan_scope": "user_only" if cleaned[f"users_{slug}"] else "all_messages",
            }
            for slug in BUILTINS
            if cleaned[f"builtin_{slug}"]
        ]
        chosen = ((slug, cleaned[f"output_{slug}"]) for slug in BUILTINS)
        of_answers = [{"slug": slug, "action": action} for slug, action in chosen if action]
        body["content_filter_builtins"] = builtins or None
        body["output_filter_builtins"] = of_answers or None
        body |= {place: self._build_patterns(place) or None for place, _ in _PLACES}
        body |= {name: cleaned[name] for name in _SWITCHES}
        body["external_guards"] = build_guards(cleaned, self._guardrail)
        if "name" in cleaned:
            body["name"] = cleaned["name"]
        return body

    def _build_patterns(self, place: str) -> list[JsonObject]:
        cleaned = self.cleaned_data
        return [
            {
                "pattern": cleaned[f"pattern_{row}"],
                "action": cleaned[f"action_{row}"] or "flag",
                "label": cleaned[f"label_{row}"] or None,
            }
            for row in self.pattern_rows
            if cleaned[f"pattern_{row}"] and (cleaned[f"place_{row}"] or "content_filters") == place
        ]


def _list_patterns(guardrail: Guardrail) -> list[JsonObject]:
    """The patterns of requests, then those of answers, each with its place."""
    return [
        {**each, "place": place} for place, _ in _PLACES for each in getattr(guardrail, place) or ()
    ]


def _read_initial(guardrail: Guardrail) -> JsonObject:
    names = ("name", "description", "allowed_data_regions", "reset_interval", *_SWITCHES)
    initial: JsonObject = {name: getattr(guardrail, name) for name in (*names, *_LISTS)}
    initial |= read_guards(guardrail)
    limit_nano = guardrail.limit_nano
    initial["limit_usd"] = "" if limit_nano is None else format_usd(limit_nano)
    initial["zdr"] = [each for each in _ZDR if getattr(guardrail, f"enforce_zdr_{each}")]
    initial["forbidden_uses"] = [n for n in _TRAINING if getattr(guardrail, n) is False]
    for each in guardrail.content_filter_builtins or ():
        initial[f"builtin_{each['slug']}"] = each["action"]
        initial[f"users_{each['slug']}"] = each.get("scan_scope") == "user_only"
    for each in guardrail.output_filter_builtins or ():
        initial[f"output_{each['slug']}"] = each["action"]
    for row, each in enumerate(_list_patterns(guardrail)):
        columns = ("pattern", "label", "action", "place")
        initial |= {f"{name}_{row}": each.get(name) for name in columns}
    return initial
