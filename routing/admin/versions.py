"""Which catalogue there is, and which one each web process serves."""

from django.contrib import admin

from gateway.admin import ReadOnlyAdmin
from routing.catalogue.models import CatalogueServing, CatalogueVersion


@admin.register(CatalogueVersion)
class CatalogueVersionAdmin(ReadOnlyAdmin):
    """One row; it counts changes."""

    list_display = ("version",)


@admin.register(CatalogueServing)
class CatalogueServingAdmin(ReadOnlyAdmin):
    """A process that was killed leaves its row behind; look at when it was last seen."""

    list_display = ("process", "version", "seen_at")
    ordering = ("-seen_at",)
