"""The catalogue's version: one row, moved by every change in the transaction of that change.

Web processes poll it and rebuild their snapshot when it moved, so a change without a bump would
stay unseen. That is why the rows' own `save`, `delete` and queryset methods bump it: the admin, its
bulk actions and `.update()` all use them.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from django.db import models, transaction
from django.db.models import F, Q

_T = TypeVar("_T", bound=models.Model)
_ROW = 1


class CatalogueVersion(models.Model):
    """The single row that says how often the catalogue has changed."""

    version = models.BigIntegerField(default=0)

    class Meta:
        constraints = [
            models.CheckConstraint(name="routing_catalogueversion_one_row", condition=Q(pk=_ROW)),
        ]

    def __str__(self) -> str:
        return str(self.version)


class CatalogueServing(models.Model):
    """Which version a web process serves; the process refreshes `seen_at` while it lives."""

    process = models.CharField(max_length=200, unique=True)
    version = models.BigIntegerField()
    seen_at = models.DateTimeField()

    class Meta:
        verbose_name_plural = "catalogue serving"

    def __str__(self) -> str:
        return f"{self.process} serves {self.version}"


def current_version(using: str | None = None) -> int:
    """The version in the database; 0 before the first change."""
    rows = CatalogueVersion.objects.using(using).filter(pk=_ROW)
    return rows.values_list("version", flat=True).first() or 0


@contextmanager
def bump_version(using: str) -> Iterator[None]:
    """A transaction that changes the catalogue.

    The bump comes first: its row lock puts concurrent changes in a queue. Bumping last would let
    two of them wait for each other's rows.
    """
    with transaction.atomic(using=using):
        rows = CatalogueVersion.objects.using(using)
        if not rows.filter(pk=_ROW).update(version=F("version") + 1):
            rows.bulk_create([CatalogueVersion(pk=_ROW)], ignore_conflicts=True)
            rows.filter(pk=_ROW).update(version=F("version") + 1)
        yield


class VersionedQuerySet(models.QuerySet[_T]):
    """Bulk changes move the version too."""

    def update(self, **kwargs: object) -> int:
        with bump_version(self.db):
            return super().update(**kwargs)

    update.alters_data = True  # type: ignore[attr-defined]  # Django's own marker on the method.

    def delete(self) -> tuple[int, dict[str, int]]:
        with bump_version(self.db):
            return super().delete()

    # Without the second marker managers would get `delete`, and one slip would empty the table.
    delete.alters_data = True  # type: ignore[attr-defined]  # Django's own marker on the method.
    delete.queryset_only = True  # type: ignore[attr-defined]  # Django's own marker on the method.

    def bulk_create(self, objs: Iterable[_T], *args: Any, **kwargs: Any) -> list[_T]:
        with bump_version(self.db):
            return super().bulk_create(objs, *args, **kwargs)

    def bulk_update(
        self, objs: Iterable[_T], fields: Iterable[str], *args: Any, **kwargs: Any
    ) -> int:
        with bump_version(self.db):
            return super().bulk_update(objs, fields, *args, **kwargs)


VersionedManager = models.Manager.from_queryset(VersionedQuerySet)


class Versioned(models.Model):
    """Base of the catalogue's rows."""

    objects = VersionedManager()

    class Meta:
        abstract = True
        # `model.endpoints.add()` and the like write through this one; Django's own would not count.
        base_manager_name = "objects"

    def save(self, *args: Any, **kwargs: Any) -> None:
        with bump_version(kwargs.get("using") or self._state.db or "default"):
            super().save(*args, **kwargs)

    def delete(self, *args: Any, **kwargs: Any) -> tuple[int, dict[str, int]]:
        with bump_version(kwargs.get("using") or self._state.db or "default"):
            return super().delete(*args, **kwargs)
