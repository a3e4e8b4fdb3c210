"""Who belongs to a workspace beside the default one, to which everybody of the account does."""

import uuid

from django.core.exceptions import ValidationError
from django.db import models
from django.db.models import Q

from accounts.models.account import Membership, Workspace


class WorkspaceMembership(models.Model):
    """A member of the account in one of its workspaces; who leaves the account leaves it too.

    `role` is the highest of `own_role` and the roles that groups of a directory give. `own_role` is
    the member's role in the account as it was when somebody last added it, null for who is here by
    groups alone.
    """

    class Role(models.TextChoices):
        ADMIN = "admin", "Admin"
        MEMBER = "member", "Member"
        VIEWER = "viewer", "Viewer"

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    # The constraint's index begins with it.
    workspace = models.ForeignKey(
        Workspace, on_delete=models.CASCADE, related_name="memberships", db_index=False
    )
    membership = models.ForeignKey(
        Membership, on_delete=models.CASCADE, related_name="workspace_memberships"
    )
    role = models.CharField(max_length=8, choices=Role.choices)
    own_role = models.CharField(max_length=8, choices=Role.choices, null=True, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                name="accounts_workspacemembership_once", fields=["workspace", "membership"]
            ),
            models.CheckConstraint(
                name="accounts_workspacemembership_role_known",
                condition=Q(role__in=["admin", "member", "viewer"]),
            ),
        ]

    def __str__(self) -> str:
        return f"{self.membership.user} in {self.workspace}"

    def clean(self) -> None:
        if self.membership.account_id != self.workspace.account_id:
            raise ValidationError("This member belongs to another account.")
        if self.workspace.is_default:
            raise ValidationError("Everybody of the account belongs to its default workspace.")
