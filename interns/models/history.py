"""What happened to interns: when, from what to what, why, by whom. Rows are added and then kept."""

from typing import Any, NoReturn

from django.db import models
from django.db.models import F

from accounts.models import Account
from accounts.models.record import AppendOnly


class InternTransitionQuerySet(models.QuerySet["InternTransition"]):
    """Reads, and `create`."""

    def update(self, **changes: Any) -> NoReturn:
        raise AppendOnly("the history of interns is kept as it was written")

    def delete(self) -> NoReturn:
        raise AppendOnly("the history of interns is kept as it was written")


class InternTransition(models.Model):
    """One move of one intern, or something of note that moved nothing (then both are the same).

    `rule` is the row of the table of moves, such as `T13`, "" for a note. No `from_status` is the
    beginning, no `to_status` the end. `by` names who: a user and a key's label, a worker, the
    reaper, an operator, a command. It outlives the intern, so it names it and its account by value.
    """

    intern_id = models.UUIDField()
    intern_name = models.CharField(max_length=17)
    # The index below begins with the intern; a record outlives what it tells of.
    account = models.ForeignKey(
        Account,
        on_delete=models.DO_NOTHING,
        related_name="+",
        db_index=False,
        db_constraint=False,
    )
    at = models.DateTimeField()
    rule = models.CharField(max_length=4, blank=True, default="")
    from_status = models.CharField(max_length=24, blank=True, default="")
    to_status = models.CharField(max_length=24, blank=True, default="")
    why = models.CharField(max_length=1000, blank=True, default="")
    by = models.CharField(max_length=200)
    operation_id = models.UUIDField(null=True)

    objects = InternTransitionQuerySet.as_manager()

    class Meta:
        indexes = [
            models.Index(F("intern_id"), F("id").desc(), name="interns_transition_intern"),
        ]

    def __str__(self) -> str:
        return f"{self.intern_name}: {self.from_status or '-'} to {self.to_status or '-'}"

    def save(self, *args: Any, **options: Any) -> None:
        if not self._state.adding:
            raise AppendOnly("the history of interns is kept as it was written")
        super().save(*args, **options)

    def delete(self, *args: Any, **options: Any) -> NoReturn:
        raise AppendOnly("the history of interns is kept as it was written")
