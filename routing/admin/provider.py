"""Providers and their credentials, which go in and are never shown again."""

from datetime import UTC, date, datetime
from typing import Any, ClassVar

from django import forms
from django.contrib import admin
from django.db.models import Count, OuterRef, QuerySet, Subquery, Sum
from django.http import HttpRequest, HttpResponse

from gateway.admin import PageAdmin, ReadOnlyAdmin, count_column, usd_column
from gateway.http.jsonio import JsonObject, format_usd
from gateway.outbound.http_client import Origin
from routing.admin.charts import draw_history
from routing.admin.rows import RATE_LIMITS_FIELDSET, CheckedForm, DropsHistory, SwitchedAdmin
from routing.admin.trial import trial_page
from routing.catalogue.credentials import ProviderCredential
from routing.catalogue.models import Endpoint, Provider
from routing.catalogue.spec import CredentialSpec, ProviderSpec
from routing.metering.models import CredentialSpend
from routing.statistics.models import ProviderProbe

_ANSWERS = {True: "answers", False: "does not answer", None: "nothing known"}


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


# --- Providers ------------------------------------------------------------------------------------


class ProviderForm(WriteOnlyForm):
    spec = ProviderSpec
    fixed_name = "slug"
    remove_credential = forms.BooleanField(required=False)

    class Meta:
        model = Provider
        exclude = ("credential_sealed",)

    def clean_base_url(self) -> str:
        base_url: str = self.cleaned_data["base_url"]
        try:
            Origin.parse(base_url)
        except ValueError as error:
            raise forms.ValidationError(str(error)) from None
        return base_url

    def clean(self) -> JsonObject:
        fields = super().clean()
        moves = "base_url" in fields and self._is_elsewhere(fields["base_url"])
        if moves and self.instance.pk and self.instance.credentials.exists():
            text = "The provider's credentials were given for another address: remove them."
            self.add_error("base_url", text)
        is_given, is_removed = fields.get("new_credential"), fields.get("remove_credential")
        if is_given and is_removed:
            self.add_error("remove_credential", "Give a credential or remove it, not both.")
        if is_given or is_removed or "base_url" not in fields:
            return fields
        if self.instance.has_credential and self._is_elsewhere(fields["base_url"]):
            self.add_error("new_credential", "The address changed: give the credential again.")
        return fields

    def _is_elsewhere(self, base_url: str) -> bool:
        """Whether what was given to one server would now be sent to another."""
        former = self.initial.get("base_url")
        if not former:
            return False
        try:
            return Origin.parse(former).pool_key != Origin.parse(base_url).pool_key
        except ValueError:
            return True


_WRITE_ONLY = ("new_credential", "remove_credential")


@admin.register(Provider)
class ProviderAdmin(DropsHistory, WriteOnlyAdmin, SwitchedAdmin):
    """Who answers, how to reach them, and whether they do."""

    write_only_fields = _WRITE_ONLY

    form = ProviderForm
    list_display = ("name", "slug", "kind", "base_url", "credential_state", "endpoints", "status")
    list_filter = ("status", "kind", "zdr", "collects_data")
    search_fields = ("name", "slug", "base_url")
    actions = ("send_test_requests", "disable", "enable")

    class Media:
        css = {"all": ("routing/admin.css",)}

    fieldsets = (
        (None, {"fields": ("slug", "name", "kind", "base_url", "status")}),
        ("Credential", {"fields": ("credential_state", *_WRITE_ONLY)}),
        (
            "What it promises",
            {
                "fields": (
                    *("collects_data", "zdr", "supports_cancellation", "moderated"),
                    "publishes_data",
                )
            },
        ),
        (
            "Limits in seconds",
            {
                "fields": ("connect_s", "first_byte_s", "idle_s", "total_s"),
                "description": "Empty takes the gateway's own.",
            },
        ),
        (
            "Prompt cache",
            {
                "fields": ("cache_lifetime_s",),
                "description": "In seconds. Empty takes what is usual of its wire kind.",
            },
        ),
        (
            "Active probes",
            {
                "fields": ("probe_interval_s", "probe_state"),
                "description": "In seconds, 5 at least; empty leaves it to requests to find out. "
                "Needs a worker, beat and a shared cache.",
            },
        ),
        ("The last 24 hours", {"fields": ("history",)}),
        (
            "About",
            {
                "fields": (
                    *("privacy_policy_url", "terms_of_service_url", "status_page_url"),
                    *("headquarters", "datacenters"),
                )
            },
        ),
    )

    def get_queryset(self, request: HttpRequest) -> QuerySet[Provider]:
        rows: QuerySet[Provider] = super().get_queryset(request)
        return rows.annotate(
            endpoint_count=Count("endpoints", distinct=True),
            pooled=Count("credentials", distinct=True),
        )

    readonly_fields = ("credential_state", "probe_state", "history")
    # The credential is bound to it, and endpoints' tags begin with it.
    fixed_fields = ("slug",)
    endpoints = count_column("endpoint_count", "endpoints")

    @admin.display(description="credential")
    def credential_state(self, provider: Any) -> str:
        if provider.pooled:
            return f"a pool of {provider.pooled}"
        return "set" if provider.has_credential else "not set"

    @admin.display(description="last probe")
    def probe_state(self, provider: Provider) -> str:
        probe = ProviderProbe.objects.filter(provider=provider.pk).first()
        if probe is None:
            return "none yet"
        since = f" since {probe.since:%Y-%m-%d %H:%M} UTC" if probe.since else ""
        parts = [f"{_ANSWERS[probe.ok]}{since}; asked at {probe.at:%Y-%m-%d %H:%M:%S} UTC"]
        if probe.status is not None:
            parts.append(f"status {probe.status} after {probe.latency_ms} ms")
        if probe.said:
            parts.append(probe.said)
        return ", ".join(parts)

    @admin.display(description="")
    def history(self, provider: Provider) -> str:
        endpoints = Endpoint.objects.filter(provider=provider.pk)
        return draw_history(list(endpoints.values_list("pk", flat=True)))

    def save_model(
        self, request: HttpRequest, obj: Provider, form: ProviderForm, change: bool
    ) -> None:
        fields = form.cleaned_data
        credential, removed = fields["new_credential"], fields["remove_credential"]
        if credential or removed:
            obj.set_credential(credential or None)
        super().save_model(request, obj, form, change)
        if change and (credential or removed):
            obj.save(update_fields=["credential_sealed"])

    @admin.action(description="Send a test request to each endpoint", permissions=["change"])
    def send_test_requests(
        self, request: HttpRequest, providers: QuerySet[Provider]
    ) -> HttpResponse:
        endpoints = Endpoint.objects.filter(provider__in=providers).order_by("provider", "model")
        return trial_page(request, self.admin_site, endpoints, send=True)


# --- Pools of credentials -------------------------------------------------------------------------


class CredentialForm(WriteOnlyForm):
    spec = CredentialSpec
    fixed_name = "label"

    class Meta:
        model = ProviderCredential
        fields = ("provider", "label", "weight", "rate_limits")

    def clean(self) -> JsonObject:
        fields = super().clean()
        if not self.instance.sealed and not fields.get("new_credential"):
            self.add_error("new_credential", "A new credential needs its content.")
        return fields


@admin.register(ProviderCredential)
class ProviderCredentialAdmin(WriteOnlyAdmin):
    """Credentials of providers that have several. Web processes follow within a second."""

    form = CredentialForm
    list_display = ("label", "provider", "masked", "weight", "spent_today", "spent_this_month")
    list_select_related = ("provider",)
    list_filter = ("provider",)
    search_fields = ("label", "provider__slug")
    fieldsets = (
        (None, {"fields": ("provider", "label", "weight")}),
        ("Credential", {"fields": ("masked", "new_credential")}),
        RATE_LIMITS_FIELDSET,
    )

    def get_queryset(self, request: HttpRequest) -> QuerySet[ProviderCredential]:
        rows: QuerySet[ProviderCredential] = super().get_queryset(request)
        today = datetime.now(UTC).date()
        return rows.annotate(
            today_nano=_sum_since(today), month_nano=_sum_since(today.replace(day=1))
        )

    readonly_fields = ("masked",)
    # What is sealed is bound to both.
    fixed_fields = ("provider", "label")

    @admin.display(description="spent today (USD)")
    def spent_today(self, row: Any) -> str:
        return format_usd(row.today_nano or 0)

    @admin.display(description="spent this month (USD)")
    def spent_this_month(self, row: Any) -> str:
        return format_usd(row.month_nano or 0)

    def save_model(
        self, request: HttpRequest, obj: ProviderCredential, form: CredentialForm, change: bool
    ) -> None:
        if secret := form.cleaned_data["new_credential"]:
            obj.set_secret(secret)
        super().save_model(request, obj, form, change)
        if change and secret:
            obj.save(update_fields=["sealed", "masked"])


def _sum_since(day: date) -> Subquery:
    rows: QuerySet[Any, Any] = CredentialSpend.objects.filter(
        provider=OuterRef("provider__slug"), label=OuterRef("label"), day__gte=day
    )
    sums = rows.order_by().values("provider", "label").annotate(total=Sum("cost_nano"))
    return Subquery(sums.values("total"))


@admin.register(CredentialSpend)
class CredentialSpendAdmin(ReadOnlyAdmin):
    """What each of them spent, day by day, at list price."""

    cost = usd_column("cost_nano", "spent")
    list_display = ("day", "provider", "label", "requests", "cost")
    list_filter = ("provider", "day")
    search_fields = ("provider", "label")
    date_hierarchy = "day"
