"""Draws plain fields of forms without templates: a page has up to a hundred of them.

Django's own templates of a list of choices take five times as long, a template for each choice.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from django.forms.renderers import DjangoTemplates
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

_INPUTS: Final = ("text", "number", "email", "url", "password", "hidden", "checkbox")
# What a template is given of a widget.
Widget = Mapping[str, Any]


class FieldRenderer(DjangoTemplates):
    """Django's renderer of forms, but for its plain widgets, which get the same HTML."""

    def render(self, template_name: str, context: Any, request: Any = None) -> str:
        write = _WRITERS.get(template_name)
        if write is None:
            return super().render(template_name, context, request)
        return write(context["widget"])


def _write_attributes(widget: Widget) -> SafeString:
    """Each with a blank before it; one that is `True` is a bare name."""
    written = [
        format_html(" {}", name) if value is True else format_html(' {}="{}"', name, value)
        for name, value in widget["attrs"].items()
        if value is not False
    ]
    return format_html_join("", "{}", ((each,) for each in written))


def _write_input(widget: Widget) -> SafeString:
    value = widget["value"]
    return format_html(
        '<input type="{}" name="{}"{}{}>',
        widget["type"],
        widget["name"],
        "" if value is None else format_html(' value="{}"', value),
        _write_attributes(widget),
    )


def _write_textarea(widget: Widget) -> SafeString:
    return format_html(
        '<textarea name="{}"{}>\n{}</textarea>',
        widget["name"],
        _write_attributes(widget),
        widget["value"] or "",
    )


def _write_select(widget: Widget) -> SafeString:
    groups = _write_groups(widget, '<optgroup label="{}">{}</optgroup>', _write_option)
    attributes = _write_attributes(widget)
    return format_html('<select name="{}"{}>{}</select>', widget["name"], attributes, groups)


def _write_option(choice: Widget) -> SafeString:
    return format_html(
        '<option value="{}"{}>{}</option>',
        choice["value"],
        _write_attributes(choice),
        choice["label"],
    )


def _write_boxes(widget: Widget) -> SafeString:
    """Checkboxes or radio buttons with their labels."""
    attributes = {name: widget["attrs"].get(name) for name in ("id", "class")}
    box = {"attrs": {name: value for name, value in attributes.items() if value}}
    groups = _write_groups(widget, "<div><label>{}</label>{}</div>", _write_box)
    return format_html("<div{}>{}</div>", _write_attributes(box), groups)


def _write_box(choice: Widget) -> SafeString:
    field, pk = _write_input(choice), choice["attrs"].get("id")
    if choice["wrap_label"]:
        target = format_html(' for="{}"', pk) if pk else ""
        field = format_html("<label{}>{} {}</label>", target, field, choice["label"])
    return format_html("<div>{}</div>", field)


def _write_groups(widget: Widget, frame: str, write: Callable[[Widget], SafeString]) -> SafeString:
    """The choices; those of a group that has a name within `frame`, behind the name."""
    parts = []
    for name, choices, _ in widget["optgroups"]:
        group = format_html_join("", "{}", ((write(each),) for each in choices))
        parts.append(format_html(frame, name, group) if name else group)
    return format_html_join("", "{}", ((each,) for each in parts))


_WRITERS: Final[Mapping[str, Callable[[Widget], SafeString]]] = {
    **{f"django/forms/widgets/{name}.html": _write_input for name in _INPUTS},
    "django/forms/widgets/textarea.html": _write_textarea,
    "django/forms/widgets/select.html": _write_select,
    "django/forms/widgets/checkbox_select.html": _write_boxes,
    "django/forms/widgets/radio.html": _write_boxes,
}
