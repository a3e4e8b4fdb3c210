"""API keys: only the SHA-256 of the key string is kept."""

from datetime import datetime
from uuid import UUID

from django.db import models
from django.db.models import OuterRef, Q, Subquery

from accounts.models.account import Account, User, Workspace
from accounts.models.budget import Enforcement
from accounts.models.oauth import App


class ApiKeyQuerySet(models.QuerySet["ApiKey"]):
    def usable(self, now: datetime) -> "ApiKeyQuerySet":
        """Keys that open a door at `now`: neither deleted, disabled nor expired."""
        alive = Q(expires_at__isnull=True) | Q(expires_at__gt=now)
        return self.filter(alive, deleted_at__isnull=True, disabled=False)

    def living(self) -> "ApiKeyQuerySet":
        """Keys that were not deleted, nor their workspace."""
        return self.filter(deleted_at__isnull=True, workspace__deleted_at__isnull=True)

    def inference(self, account_id: UUID) -> "ApiKeyQuerySet":
        """The keys that an account manages through the API."""
        return self.living().filter(account_id=account_id, kind=ApiKey.Kind.INFERENCE)

    def of_string(self, key_hash: str) -> "ApiKeyQuerySet":
        """The key that has this hash, or had it before it was rotated.

        One statement for both, so that who asks cannot tell by the time it takes what is known.
        """
        now = ApiKey.objects.filter(hash=key_hash).values("pk")
        before = FormerHash.objects.filter(hash=key_hash).values("api_key_id")
        return self.filter(pk__in=now.union(before, all=True))

    def formerly(self, key_hash: str) -> "ApiKeyQuerySet":
        """The key that had this hash before it was rotated, with `string_until`: when that string
        stops working, or stopped."""
        since = FormerHash.objects.filter(
            api_key=OuterRef("pk"), pk__gte=OuterRef("former_hashes__pk")
        )
        ends = since.order_by("valid_until").values("valid_until")[:1]
        return self.filter(former_hashes__hash=key_hash).annotate(string_until=Subquery(ends))

    def lock(self) -> "ApiKeyQuerySet":
        """Rows nobody else changes until the transaction ends, each account's before its keys'.

        The ledger writer takes an account's row first as well: while it is ours, no hold is being
        placed against the counters of its keys. SQLite locks the whole database by itself.
        """
        return (
            self.select_related("account", "creator")
            .select_for_update(of=("account", "self"), no_key=True)
            .order_by("account_id", "pk")
        )


class ApiKey(models.Model):
    """A credential of an account: inference keys live in a workspace, management keys do not."""

    class Kind(models.TextChoices):
        INFERENCE = "inference", "Inference"
        MANAGEMENT = "management", "Management"

    class Reset(models.TextChoices):
        DAILY = "daily", "Daily (UTC)"
        WEEKLY = "weekly", "Weekly (Monday, UTC)"
        MONTHLY = "monthly", "Monthly (UTC)"

    account = models.ForeignKey(Account, on_delete=models.PROTECT, related_name="keys")
    workspace = models.ForeignKey(
        Workspace, on_delete=models.PROTECT, related_name="keys", null=True, blank=True
    )
    creator = models.ForeignKey(
        User, on_delete=models.PROTECT, related_name="keys", null=True, blank=True
    )
    kind = models.CharField(max_length=16, choices=Kind.choices, default=Kind.INFERENCE)
    name = models.CharField(max_length=100)
    hash = models.CharField(max_length=64, unique=True, editable=False)
    label = models.CharField(max_length=40, editable=False)
    disabled = models.BooleanField(default=False)
    limit_nano = models.BigIntegerField(null=True, blank=True)
    limit_reset = models.CharField(
        max_length=8,
        choices=Reset.choices,
        null=True,
        blank=True,
    )
    limit_enforcement = models.CharField(
        max_length=5,
        choices=Enforcement.choices,
        default="block",
        db_default="block",
    )
    include_byok_in_limit = models.BooleanField(default=False)
    # The intern whose own key it is. Interns are known further up, so it is a number here.
    intern_id = models.UUIDField(null=True, editable=False)
    # The app that somebody let have it.
    app = models.ForeignKey(
        App, on_delete=models.PROTECT, related_name="keys", null=True, editable=False
    )
    # The person whose playground in the console makes its requests with it.
    playground_user = models.ForeignKey(
        User,
        on_delete=models.PROTECT,
        related_name="+",
        null=True,
        db_index=False,
        editable=False,
    )
    # The end user that it was made for, in the account's own words.
    external_user = models.CharField(max_length=256, null=True, blank=True, editable=False)
    # Words of `accounts.scopes.SCOPES` for management keys; null for everything.
    scopes = models.JSONField(null=True, blank=True, default=None)
    # Ids of workspaces that a management key is for; null for all, and the account itself.
    managed_workspaces = models.JSONField(null=True, blank=True, default=None, editable=False)
    # Canonical slugs that an inference key may ask for; null for all.
    allowed_models = models.JSONField(null=True, blank=True, default=None)
    # Networks that it may be used from, such as `192.0.2.0/24`; null for all.
    allowed_ips = models.JSONField(null=True, blank=True, default=None)
    # As `gateway.limits.rules.dump_limits` writes them; null for none.
    rate_limits = models.JSONField(null=True, blank=True, default=None)
    # What it wants for requests that do not say otherwise; null is as its workspace says.
    hedge = models.BooleanField(null=True, blank=True, default=None)
    rescue = models.BooleanField(null=True, blank=True, default=None)
    expires_at = models.DateTimeField(null=True, blank=True)
    # When the last call made with it was booked, written a few seconds later.
    last_used_at = models.DateTimeField(null=True, blank=True, editable=False)
    deleted_at = models.DateTimeField(null=True, blank=True, editable=False)
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(null=True, blank=True, editable=False)

    objects = ApiKeyQuerySet.as_manager()

    class Meta:
        verbose_name = "API key"
        constraints = [
            models.CheckConstraint(
                name="accounts_apikey_workspace_fits_kind",
                condition=Q(kind="inference", workspace__isnull=False)
                | Q(kind="management", workspace__isnull=True),
            ),
            models.CheckConstraint(
                name="accounts_apikey_scopes_are_of_management_keys",
                condition=Q(kind="management") | Q(scopes__isnull=True),
            ),
            models.CheckConstraint(
                name="accounts_apikey_managed_workspaces_are_of_management_keys",
                condition=Q(kind="management") | Q(managed_workspaces__isnull=True),
            ),
            models.CheckConstraint(
                name="accounts_apikey_limit_not_negative",
                condition=Q(limit_nano__isnull=True) | Q(limit_nano__gte=0),
            ),
            models.CheckConstraint(
                name="accounts_apikey_limit_enforcement_known",
                condition=Q(limit_enforcement__in=["block", "warn"]),
            ),
            models.UniqueConstraint(
                name="accounts_apikey_one_playground_per_person_and_workspace",
                fields=["playground_user", "workspace"],
                condition=Q(playground_user__isnull=False, deleted_at__isnull=True),
            ),
        ]

    def __str__(self) -> str:
        return f"{self.name} ({self.label})"

    @property
    def enforced_limit_nano(self) -> int | None:
        """What requests are held to; None also where the limit only warns."""
        return self.limit_nano if self.limit_enforcement == "block" else None

    @property
    def is_management(self) -> bool:
        return self.kind == self.Kind.MANAGEMENT


class FormerHash(models.Model):
    """A string that a key was rotated away from, and until when it still opens the door.

    None works any longer than those of later rotations, so that a rotation without grace ends them
    all. See `ApiKeyQuerySet.formerly`.
    """

    hash = models.CharField(max_length=64, unique=True, editable=False)
    api_key = models.ForeignKey(ApiKey, on_delete=models.PROTECT, related_name="former_hashes")
    valid_until = models.DateTimeField()
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        verbose_name_plural = "former hashes"

    def __str__(self) -> str:
        return f"{self.hash[:8]}... of {self.api_key_id}"
