"""Changing what an intern is set to (management reference 6.6)."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from django.db import IntegrityError, transaction

from interns.errors import InternBusy, InternNotFound, NameTaken
from interns.models import Intern, Status


def update_intern(intern_id: UUID, changes: Mapping[str, Any]) -> Intern:
    """The intern with these columns set; a job that holds it goes on.

    Raises `InternNotFound`, `InternBusy` while it is being torn down, and `NameTaken`.
    """
    rows = Intern.objects.filter(pk=intern_id)
    if changes:
        _write(rows.exclude(status=Status.DESTROYING), changes)
    intern = rows.select_related("vault", "workspace").first()
    if intern is None:
        raise InternNotFound
    if intern.status == Status.DESTROYING:
        raise InternBusy
    return intern


def _write(rows: Any, changes: Mapping[str, Any]) -> None:
    try:
        with transaction.atomic():
            rows.update(**changes, updated_at=datetime.now(UTC))
    except IntegrityError:
        raise NameTaken from None
