"""Models and the names they answer to."""

from datetime import UTC, datetime
from typing import Any

from django.contrib import admin
from django.core.exceptions import ValidationError
from django.db.models import Count, QuerySet
from django.http import HttpRequest
from pydantic import TypeAdapter
from pydantic import ValidationError as SpecError

from gateway.admin import Form, PageAdmin, ReadOnlyInline, TabularInline
from routing.admin.rows import CheckedForm, PricedRows, has_price
from routing.admin.samples import DropsHistory
from routing.catalogue.models import Endpoint, Model, ModelAlias
from routing.catalogue.spec import Alias, ModelSpec

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

    def get_queryset(self, request: HttpRequest) -> QuerySet[Endpoint]:
        return super().get_queryset(request).select_related("provider")


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

    def get_queryset(self, request: HttpRequest) -> QuerySet[Model]:
        # A search joins the aliases, so the endpoints behind each of them are counted once.
        every = Count("endpoints", distinct=True)
        priced = Count("endpoints", filter=has_price("endpoints__"), distinct=True)
        rows: QuerySet[Model] = super().get_queryset(request)
        return rows.annotate(endpoint_count=every, priced_count=priced)

    @admin.display(description="endpoints", ordering="endpoint_count")
    def endpoints(self, model: Any) -> int:
        count: int = model.endpoint_count
        return count

    @admin.display(description="of them without a price")
    def without_price(self, model: Any) -> int:
        count: int = model.endpoint_count - model.priced_count
        return count

    @admin.display(description="created", ordering="created")
    def created_day(self, model: Model) -> str:
        return datetime.fromtimestamp(model.created, UTC).date().isoformat()

    def get_inlines(self, request: HttpRequest, obj: Model | None) -> Any:
        return self.inlines if obj else ()


@admin.register(ModelAlias)
class ModelAliasAdmin(PageAdmin):
    form = AliasForm
    list_display = ("alias", "model")
    list_select_related = ("model",)
    search_fields = ("alias", "model__slug")
    autocomplete_fields = ("model",)
