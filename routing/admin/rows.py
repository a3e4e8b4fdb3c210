"""What the pages of catalogue rows have in common: checked forms, a switch, and columns of prices.

Requests are served from whatever stands in the rows, so a list that is no list must not get there.
"""

from typing import Any, ClassVar, Final

from django.contrib import admin, messages
from django.db.models import Model, Q, QuerySet
from django.http import HttpRequest
from pydantic import BaseModel, ValidationError

from gateway.admin import Form, PageAdmin
from gateway.http.jsonio import JsonObject
from routing.catalogue.models import Endpoint
from routing.entities.prices import PriceError, Prices, plain
from routing.entities.vocabulary import STATUS_DISABLED
from routing.statistics.models import EndpointSample, ProviderProbe

_MILLION: Final = 1_000_000
RATE_LIMITS_FIELDSET: Final[tuple[str, Any]] = (
    "How much of it may be used",
    {
        "fields": ("rate_limits",),
        "description": "Beside these figures a limit takes burst, a part of requests_per_minute, "
        'and weights, as how many requests one to a model counts: {"acme/large": 5, "acme/*": 2}.',
    },
)


class CheckedForm(Form):
    """A form whose values must fit `spec`; what the spec puts in order is taken over.

    `file_names` are the fields that a catalogue file calls differently.
    """

    spec: ClassVar[type[BaseModel]]
    file_names: ClassVar[dict[str, str]] = {}

    def clean(self) -> JsonObject:
        fields: JsonObject = super().clean() or self.cleaned_data
        if self.errors:
            return fields
        # An empty JSON field that may not be null has its default, such as an empty list.
        columns = {column.name: column for column in self._meta.model._meta.concrete_fields}
        fields |= {
            name: columns[name].get_default()
            for name, value in fields.items()
            if value is None and name in columns and not columns[name].null
        }
        try:
            entry = self.spec.model_validate(self.describe_entry(fields))
        except ValidationError as error:
            form_names = {name: form_name for form_name, name in self.file_names.items()}
            for detail in error.errors(include_url=False):
                field, *place = detail["loc"] or ("",)
                text = detail["msg"].removeprefix("Value error, ")
                where = ".".join(map(str, place))
                name = form_names.get(str(field), str(field))
                self.add_error(
                    name if name in self.fields else None, f"{where}: {text}" if where else text
                )
            return fields
        names = {self.file_names.get(name, name): name for name in fields}
        for name, value in entry.model_dump(exclude_unset=True).items():
            if name in names and not isinstance(fields[names[name]], Model):
                fields[names[name]] = value
        return fields

    def describe_entry(self, fields: JsonObject) -> JsonObject:
        """The entry of a catalogue file that says the same as the form."""
        named = {self.file_names.get(name, name): value for name, value in fields.items()}
        known = self.spec.model_fields
        return {name: value for name, value in named.items() if name in known and value is not None}


class SwitchedAdmin(PageAdmin):
    """Pages of rows with a `status`. Web processes follow within a second."""

    @admin.action(description="Disable", permissions=["change"])
    def disable(self, request: HttpRequest, rows: QuerySet[Any]) -> None:
        self._switch(request, rows, STATUS_DISABLED, "Disabled")

    @admin.action(description="Enable", permissions=["change"])
    def enable(self, request: HttpRequest, rows: QuerySet[Any]) -> None:
        self._switch(request, rows, 0, "Enabled")

    def _switch(self, request: HttpRequest, rows: QuerySet[Any], status: int, verb: str) -> None:
        moving = list(rows.exclude(status=status))
        self.model._default_manager.filter(pk__in=[row.pk for row in moving]).update(status=status)
        for row in moving:
            self.log_change(request, row, f"{verb}.")
        messages.success(request, f"{verb} {len(moving)}.")


def has_price(prefix: str = "") -> Q:
    return Q(**{f"{prefix}pricing__isnull": False})


def per_million(pricing: JsonObject | None, key: str) -> str | None:
    """One price of a pricing object; None where there is none."""
    try:
        prices = Prices.parse(pricing)
    except PriceError as error:
        return None if pricing is None else f"unusable: {error}"
    return plain(getattr(prices, key) * _MILLION)


class DropsHistory:
    """For pages whose rows are deleted together with what was written down of them. That is read
    only, and for it the admin would otherwise refuse to delete the row."""

    def get_deleted_objects(self, objs: object, request: HttpRequest) -> Any:
        deleted = super().get_deleted_objects(objs, request)  # type: ignore[misc]  # A mixin of admin pages.
        listed, counts, needed, protected = deleted
        history = {str(kind._meta.verbose_name) for kind in (EndpointSample, ProviderProbe)}
        return listed, counts, set(needed) - history, protected


class PricedRows:
    """Columns for pages of endpoints."""

    @admin.display(description="prompt (USD per million)")
    def prompt_price(self, endpoint: Endpoint) -> str | None:
        return per_million(endpoint.pricing, "prompt")

    @admin.display(description="completion (USD per million)")
    def completion_price(self, endpoint: Endpoint) -> str | None:
        return per_million(endpoint.pricing, "completion")


class PricedFilter(admin.SimpleListFilter):
    """Endpoints without a price are never called."""

    title = "price"
    parameter_name = "priced"

    def lookups(
        self, request: HttpRequest, model_admin: "admin.ModelAdmin[Endpoint]"
    ) -> list[tuple[str, str]]:
        return [("yes", "Priced"), ("no", "Without a price")]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Endpoint]) -> QuerySet[Endpoint]:
        match self.value():
            case "yes":
                return queryset.filter(has_price())
            case "no":
                return queryset.exclude(has_price())
        return queryset
