"""Machines that run interns."""

from typing import Final

from django.db import models
from django.db.models import Q

HOST_NAME_CHARS_MAX: Final = 253


class InternHost(models.Model):
    """A machine that runs interns, as its worker of `intern-control` wrote it down at
    `last_seen_at`.

    `home_id` tells two machines of one name apart. `interns` counts those that were placed there
    when the memory was measured. One that is `draining` gets no more. Since `alive_since` no two
    life signs were so far apart that it counted as gone.
    """

    name = models.CharField(primary_key=True, max_length=HOST_NAME_CHARS_MAX)
    home_id = models.UUIDField()
    memory_bytes = models.BigIntegerField()
    free_memory_bytes = models.BigIntegerField()
    interns = models.PositiveIntegerField(default=0)
    draining = models.BooleanField(default=False)
    alive_since = models.DateTimeField()
    last_seen_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.CheckConstraint(
                name="interns_host_memory_not_negative",
                condition=Q(memory_bytes__gte=0, free_memory_bytes__gte=0),
            ),
        ]

    def __str__(self) -> str:
        return self.name
