"""Models, the names they answer to, and their endpoints: who serves them at which price."""

from datetime import UTC, datetime
from typing import Any

from django.contrib import admin
from django.core.exceptions import PermissionDenied, ValidationError
from django.db.models import Count, QuerySet
from django.http import Http404, HttpRequest, HttpResponse
from django.urls import URLPattern, path
from pydantic import TypeAdapter
from pydantic import ValidationError as SpecError

from gateway.admin import Form, PageAdmin, ReadOnlyInline, TabularInline, count_column
from gateway.http.jsonio import JsonObject
from routing.admin.charts import draw_history
from routing.admin.rows import (
    RATE_LIMITS_FIELDSET,
    CheckedForm,
    DropsHistory,
    PricedFilter,
    PricedRows,
    SwitchedAdmin,
    has_price,
)
from routing.admin.trial import trial_page
from routing.catalogue.models import Endpoint, Model, ModelAlias
from routing.catalogue.spec import Alias, EndpointSpec, ModelSpec

_ALIAS = TypeAdapter(Alias)


class ModelForm(CheckedForm):
    """A model as a catalogue file would have it."""

    spec = ModelSpec
    file_names = {"slug": "id"}

    class Meta:
        model = Model
        fields = "__all__"


class AliasForm(Form):
    """Another name, which must be free."""

    class Meta:
        model = ModelAlias
        fields = ("alias", "model")

    def clean_alias(self) -> str:
        alias: str = self.cleaned_data["alias"]
        try:
            _ALIAS.validate_python(alias)
        except SpecError:
            raise ValidationError("Letters, digits and . _ : / - only.") from None
        if Model.objects.filter(slug=alias).exists():
            raise ValidationError("There is a model of this id, which would win.")
        return alias


class AliasInline(TabularInline):
    model = ModelAlias
    form = AliasForm
    extra = 0


class EndpointInline(PricedRows, ReadOnlyInline):
    """Who serves the model."""

    model = Endpoint
    fields = ("provider", "tag", "upstream_model", "status", "prompt_price", "completion_price")
    related = ("provider",)


@admin.register(Model)
class ModelAdmin(DropsHistory, PageAdmin):
    """What callers can name."""

    form = ModelForm
    list_display = (
        *("slug", "name", "context_length", "endpoints", "without_price"),
        *("visible", "created_day"),
    )
    list_filter = ("visible", "decisions", "distillable")
    search_fields = ("slug", "name", "canonical_slug", "aliases__alias")
    search_help_text = "Id, name, alias"
    inlines = (AliasInline, EndpointInline)
    endpoints = count_column("endpoint_count", "endpoints")

    def get_queryset(self, request: HttpRequest) -> QuerySet[Model]:
        # A search joins the aliases, so the endpoints behind each of them are counted once.
        every = Count("endpoints", distinct=True)
        priced = Count("endpoints", filter=has_price("endpoints__"), distinct=True)
        rows: QuerySet[Model] = super().get_queryset(request)
        return rows.annotate(endpoint_count=every, priced_count=priced)

    @admin.display(description="of them without a price")
    def without_price(self, model: Any) -> int:
        count: int = model.endpoint_count - model.priced_count
        return count

    @admin.display(description="created", ordering="created")
    def created_day(self, model: Model) -> str:
        return datetime.fromtimestamp(model.created, UTC).date().isoformat()


@admin.register(ModelAlias)
class ModelAliasAdmin(PageAdmin):
    form = AliasForm
    list_display = ("alias", "model")
    list_select_related = ("model",)
    search_fields = ("alias", "model__slug")
    autocomplete_fields = ("model",)


# --- Endpoints ------------------------------------------------------------------------------------


class EndpointForm(CheckedForm):
    """An endpoint as a catalogue file would have it."""

    spec = EndpointSpec

    class Meta:
        model = Endpoint
        fields = "__all__"

    def describe_entry(self, fields: JsonObject) -> JsonObject:
        return super().describe_entry(fields) | {"provider": fields["provider"].slug}


@admin.register(Endpoint)
class EndpointAdmin(DropsHistory, PricedRows, SwitchedAdmin):
    """Where requests go. A test request shows whether anyone answers there."""

    form = EndpointForm
    list_display = (
        *("model", "tag", "provider", "upstream_model", "status"),
        *("prompt_price", "completion_price", "tier", "region"),
    )
    list_display_links = ("model", "tag")
    list_select_related = ("model", "provider")
    list_filter = ("status", PricedFilter, "provider", "tier", "region", "quantization")
    search_fields = ("model__slug", "tag", "upstream_model")
    search_help_text = "Model, tag, upstream's name of the model"
    autocomplete_fields = ("model", "provider")
    actions = ("send_test_requests", "disable", "enable")
    change_form_template = "admin/routing/endpoint/change_form.html"
    readonly_fields = ("history",)

    class Media:
        css = {"all": ("routing/admin.css",)}

    fieldsets = (
        (None, {"fields": ("model", "provider", "tag", "upstream_model", "status")}),
        (
            "Price",
            {
                "fields": ("pricing", "price_source"),
                "description": "USD per token, as decimal strings. Without a price it is not used. "
                "A price changed here is one set by hand, which refresh_prices leaves alone.",
            },
        ),
        (
            "What it can do",
            {
                "fields": (
                    *("context_length", "max_completion_tokens", "max_prompt_tokens"),
                    *("supported_parameters", "supports_implicit_caching"),
                    *("input_modalities", "output_modalities", "quantization", "tier", "region"),
                    *("decisions_max_questions", "decisions_max_options", "decisions_max_levels"),
                )
            },
        ),
        (
            "What it promises",
            {
                "fields": (
                    *("collects_data", "zdr", "supports_cancellation", "moderated"),
                    "publishes_data",
                ),
                "description": "Unknown takes the provider's own.",
            },
        ),
        RATE_LIMITS_FIELDSET,
        ("The last 24 hours", {"fields": ("history",)}),
    )

    @admin.display(description="")
    def history(self, endpoint: Endpoint) -> str:
        return draw_history([endpoint.pk])

    def save_model(
        self, request: HttpRequest, obj: Endpoint, form: EndpointForm, change: bool
    ) -> None:
        if "pricing" in form.changed_data and "price_source" not in form.changed_data:
            obj.price_source = "hand"
            form.changed_data.append("price_source")
        super().save_model(request, obj, form, change)

    def get_urls(self) -> list[URLPattern]:
        view = self.admin_site.admin_view(self.trial_view)
        return [path("<int:pk>/test/", view, name="routing_endpoint_trial"), *super().get_urls()]

    def trial_view(self, request: HttpRequest, pk: int) -> HttpResponse:
        if not self.has_change_permission(request):
            raise PermissionDenied
        endpoints = Endpoint.objects.filter(pk=pk)
        if not endpoints.exists():
            raise Http404
        return trial_page(request, self.admin_site, endpoints, send=request.method == "POST")

    @admin.action(description="Send a test request", permissions=["change"])
    def send_test_requests(
        self, request: HttpRequest, endpoints: QuerySet[Endpoint]
    ) -> HttpResponse:
        return trial_page(request, self.admin_site, endpoints, send=True)
