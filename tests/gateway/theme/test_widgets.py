"""Plain fields of forms are drawn as Django's templates would draw them."""

from typing import Any, Final

import pytest
from django import forms
from django.forms.renderers import DjangoTemplates
from django.test.html import parse_html
from django.utils.safestring import mark_safe

from gateway.theme.widgets import FieldRenderer

ODD: Final = """<b>'"& {{ x }}"""
CHOICES: Final = [
    ("", "None"),
    ("a", "A & b"),
    (ODD, mark_safe("<i>odd</i>")),
    ("Group <1>", [(1, "one"), (2, "two")]),
]
ATTRIBUTES: Final[dict[str, Any]] = {"class": "x", "required": True, "hidden": False, "title": ODD}


@pytest.mark.parametrize(
    ("widget", "value"),
    [
        (forms.TextInput(attrs=ATTRIBUTES), ODD),
        (forms.TextInput(), None),
        (forms.TextInput(), mark_safe("&amp;")),
        (forms.NumberInput(attrs={"step": "any"}), 1.5),
        (forms.EmailInput(), ""),
        (forms.URLInput(), "http://127.0.0.1/?a=1&b=2"),
        (forms.PasswordInput(), "never shown"),
        (forms.HiddenInput(), 7),
        (forms.CheckboxInput(), True),
        (forms.CheckboxInput(), "y"),
        (forms.CheckboxInput(), False),
        (forms.Textarea(attrs={"rows": 2}), f"\n{ODD}"),
        (forms.Textarea(), None),
        (forms.Select(attrs=ATTRIBUTES, choices=CHOICES), ODD),
        (forms.Select(choices=CHOICES), 2),
        (forms.SelectMultiple(choices=CHOICES), ["a", 1]),
        (forms.NullBooleanSelect(), True),
        (forms.CheckboxSelectMultiple(attrs=ATTRIBUTES, choices=CHOICES), ["a"]),
        (forms.RadioSelect(choices=CHOICES), "a"),
    ],
)
def test_a_field_is_drawn_as_django_draws_it(widget: forms.Widget, value: Any) -> None:
    ours, djangos = (
        widget.render("field", value, {"id": "id_field"}, renderer=renderer)
        for renderer in (FieldRenderer(), DjangoTemplates())
    )

    assert parse_html(ours) == parse_html(djangos)
