"""Apps that people let use their accounts, and the codes that apps exchange for keys (PKCE)."""

from typing import Final

from django.db import models
from django.db.models import Q

from accounts.models.account import Account, User, Workspace

ORIGIN_CHARS_MAX: Final = 300


class App(models.Model):
    """An app as one account knows it: by the origin of its callback, such as `https://a.example`.

    The origin is empty for apps without a callback, whose users copy the code by hand. A revoked
    app comes back when somebody authorizes it anew.
    """

    account = models.ForeignKey(Account, on_delete=models.PROTECT, related_name="apps")
    origin = models.CharField(max_length=ORIGIN_CHARS_MAX, blank=True)
    name = models.CharField(max_length=100)
    created_at = models.DateTimeField(auto_now_add=True)
    authorized_at = models.DateTimeField()
    revoked_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                name="accounts_app_once_per_account", fields=["account", "origin"]
            ),
        ]

    def __str__(self) -> str:
        return self.name


class AuthorizationCode(models.Model):
    """What a code is exchanged for, until it is used, too old, or guessed at too often.

    Only the SHA-256 of the code is kept. `challenge` and `challenge_method` are empty where the
    app named none. Exactly one of `operator` and `approving_key` says who approved.
    """

    class Method(models.TextChoices):
        S256 = "S256"
        PLAIN = "plain"

    code_hash = models.CharField(max_length=64, primary_key=True)
    app = models.ForeignKey(App, on_delete=models.CASCADE, related_name="codes")
    workspace = models.ForeignKey(Workspace, on_delete=models.CASCADE, related_name="+")
    creator = models.ForeignKey(User, on_delete=models.CASCADE, related_name="+", null=True)
    operator = models.ForeignKey(User, on_delete=models.CASCADE, related_name="+", null=True)
    approving_key = models.ForeignKey(
        "accounts.ApiKey", on_delete=models.CASCADE, related_name="+", null=True
    )
    challenge = models.CharField(max_length=256, blank=True)
    challenge_method = models.CharField(max_length=5, choices=Method.choices, blank=True)
    key_name = models.CharField(max_length=100)
    limit_nano = models.BigIntegerField(null=True)
    limit_reset = models.CharField(max_length=8, null=True)
    expires_at = models.DateTimeField(null=True)
    failures = models.PositiveSmallIntegerField(default=0)
    used_at = models.DateTimeField(null=True)
    created_at = models.DateTimeField(db_index=True)

    class Meta:
        constraints = [
            models.CheckConstraint(
                name="accounts_authorizationcode_one_approver",
                condition=Q(operator__isnull=False, approving_key__isnull=True)
                | Q(operator__isnull=True, approving_key__isnull=False),
            ),
        ]

    def __str__(self) -> str:
        return f"{self.code_hash[:8]} for {self.app}"
