"""Providers. A credential goes in and is never shown again."""

from typing import Any

from django import forms
from django.contrib import admin
from django.db.models import Count, QuerySet
from django.http import HttpRequest, HttpResponse

from gateway.http.jsonio import JsonObject
from gateway.outbound.http_client import Origin
from routing.admin.charts import draw_history
from routing.admin.rows import SwitchedAdmin
from routing.admin.samples import DropsHistory, probe_text
from routing.admin.trial import trial_page
from routing.admin.write_only import WriteOnlyAdmin, WriteOnlyForm
from routing.catalogue.models import Endpoint, Provider
from routing.catalogue.spec import ProviderSpec
from routing.statistics.models import ProviderProbe


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
            "Active probes",
            {
                "fields": ("probe_interval_s", "probe_state"),
                "description": "In seconds, 5 at least; empty leaves it to requests to find out. "
                "Needs a worker, beat and a hint store.",
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

    def get_readonly_fields(
        self, request: HttpRequest, obj: Provider | None = None
    ) -> tuple[str, ...]:
        # The credential is bound to the slug, and endpoints' tags begin with it.
        own = ("credential_state", "probe_state", "history")
        return ("slug", *own) if obj else own

    @admin.display(description="credential")
    def credential_state(self, provider: Any) -> str:
        if provider.pooled:
            return f"a pool of {provider.pooled}"
        return "set" if provider.has_credential else "not set"

    @admin.display(description="last probe")
    def probe_state(self, provider: Provider) -> str:
        probe = ProviderProbe.objects.filter(provider=provider.pk).first()
        return "none yet" if probe is None else probe_text(probe)

    @admin.display(description="")
    def history(self, provider: Provider) -> str:
        endpoints = Endpoint.objects.filter(provider=provider.pk)
        return draw_history(list(endpoints.values_list("pk", flat=True)))

    @admin.display(description="endpoints", ordering="endpoint_count")
    def endpoints(self, provider: Any) -> int:
        count: int = provider.endpoint_count
        return count

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
