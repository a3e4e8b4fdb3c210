"""Requests that made an intern, so that each makes it once (management reference 6.4)."""

import uuid

from django.db import models
from django.db.models import F

from interns.models.intern import Intern


class InternCreation(models.Model):
    """A create request. `id` is made of workspace, creator and the `Idempotency-Key`, or what the
    server derived in its place. `wants_provision` is true until its provisioning is under way. It
    goes with its intern."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    intern = models.ForeignKey(Intern, on_delete=models.CASCADE, related_name="creations")
    body_hash = models.CharField(max_length=64)
    wants_provision = models.BooleanField(default=False)
    created_at = models.DateTimeField()
    finished_at = models.DateTimeField(null=True)
    expires_at = models.DateTimeField()

    class Meta:
        indexes = [models.Index(F("expires_at"), name="interns_creation_expiry")]

    def __str__(self) -> str:
        return f"creation of {self.intern_id}"
