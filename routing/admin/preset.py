"""Presets as an operator sees them: their versions, which one is in force, how they are used."""

from datetime import UTC, datetime, timedelta
from typing import Any, Final
from urllib.parse import urlencode

from django import forms
from django.contrib import admin
from django.db.models import Count, Max, QuerySet, Sum
from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from accounts.services.records import operator_actor
from gateway.admin import Form, PageAdmin, ReadOnlyAdmin, changed_fields
from gateway.http.jsonio import format_usd
from routing.metering.models import Generation
from routing.presets.models import Preset, PresetVersion
from routing.presets.services import change_preset

_DAYS_SHOWN: Final = 30
_VERSIONS_SHOWN: Final = 10
_PROMPT_CHARS_SHOWN: Final = 80


class PresetForm(Form):
    """What can be changed of a preset. The version in force is one of its own."""

    designated_version = forms.ModelChoiceField(
        PresetVersion.objects.none(),
        empty_label=None,
        help_text="The version that requests get. Versions themselves never change.",
    )

    class Meta:
        model = Preset
        fields = ("name", "description", "status", "designated_version")

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        # A choice shows the number; the texts may be long.
        own = PresetVersion.objects.filter(preset=self.instance).only("pk", "version")
        field: Any = self.fields.get("designated_version")
        if field is not None:  # Operators who may only look get no form.
            field.queryset = own.order_by("-version")

    def clean_description(self) -> str | None:
        return self.cleaned_data["description"] or None


@admin.register(Preset)
class PresetAdmin(PageAdmin):
    """Presets are made through the API; here they are named, switched and set back."""

    form = PresetForm
    actions = None
    can_add = can_delete = False
    list_display = (
        *("slug", "name", "workspace", "status", "version_in_force", "latest_version"),
        "updated_at",
    )
    list_filter = ("status",)
    search_fields = ("slug", "name", "workspace__slug", "account__name")
    search_help_text = "Slug, name, workspace, account or id"
    ordering = ("-updated_at",)
    _shown = (
        *("id", "slug", "account", "workspace", "creator", "status_updated_at"),
        *("created_at", "updated_at", "usage", "newest_versions"),
    )
    fields = ("name", "description", "status", "designated_version", *_shown)
    readonly_fields = _shown

    def get_queryset(self, request: HttpRequest) -> QuerySet[Preset]:
        rows: QuerySet[Preset] = super().get_queryset(request)
        # A workspace is named after its account.
        related = ("account", "workspace__account", "creator", "designated_version")
        texts = ("designated_version__config", "designated_version__system_prompt")
        return rows.select_related(*related).defer(*texts)

    def save_model(self, request: HttpRequest, obj: Any, form: PresetForm, change: bool) -> None:
        if fields := changed_fields(obj, form):
            names = [obj._meta.get_field(name).attname for name in fields]
            changes = {name: getattr(obj, name) for name in names}
            change_preset(preset_id=obj.pk, by=operator_actor(request.user), changes=changes)

    @admin.display(description="version in force")
    def version_in_force(self, preset: Preset) -> int:
        return preset.designated_version.version

    @admin.display(description=f"use in {_DAYS_SHOWN} days")
    def usage(self, preset: Preset) -> SafeString:
        since = datetime.now(UTC) - timedelta(days=_DAYS_SHOWN)
        used = Generation.objects.filter(preset_id=str(preset.pk), created_at__gte=since)
        sums = used.aggregate(calls=Count("pk"), nano=Sum("charge_nano"), last=Max("created_at"))
        return format_html(
            '<a href="{}?{}">{} calls</a>, {} USD, last used: {}',
            reverse("admin:routing_generation_changelist"),
            urlencode({"preset_id": str(preset.pk)}),
            sums["calls"],
            format_usd(sums["nano"] or 0),
            f"{sums['last']:%Y-%m-%d %H:%M} UTC" if sums["last"] else "not in this time",
        )

    @admin.display(description="versions")
    def newest_versions(self, preset: Preset) -> SafeString:
        rows = preset.versions.select_related("creator").defer("config").order_by("-version")
        cells = format_html_join(
            "",
            '<tr><td><a href="{}">{}</a></td><td>{}</td><td>{}</td><td>{}</td></tr>',
            (
                (
                    reverse("admin:routing_presetversion_change", args=[version.pk]),
                    version.version,
                    f"{version.created_at:%Y-%m-%d %H:%M} UTC",
                    str(version.creator or "-"),
                    version.system_prompt[:_PROMPT_CHARS_SHOWN],
                )
                for version in rows[:_VERSIONS_SHOWN]
            ),
        )
        page = reverse("admin:routing_presetversion_changelist")
        return format_html(
            "<table><thead><tr><th>Version</th><th>Made</th><th>By</th><th>System prompt</th>"
            '</tr></thead><tbody>{}</tbody></table><a href="{}?{}">All versions</a>',
            cells,
            page,
            urlencode({"preset__id__exact": str(preset.pk)}),
        )


@admin.register(PresetVersion)
class PresetVersionAdmin(ReadOnlyAdmin):
    """What a preset was at any time, to look at."""

    list_display = ("preset", "version", "workspace", "creator", "created_at")
    search_fields = ("preset__slug", "preset__workspace__slug", "preset__account__name")
    search_help_text = "Slug of the preset, workspace, account or id"
    ordering = ("-created_at",)
    fields = ("id", "preset", "version", "creator", "created_at", "config", "system_prompt")
    related = ("preset__workspace__account", "creator")

    @admin.display(description="workspace")
    def workspace(self, version: PresetVersion) -> str:
        return str(version.preset.workspace)
