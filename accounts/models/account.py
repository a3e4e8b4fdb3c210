"""Accounts, the people in them, their workspaces and who belongs to these."""

import secrets
import string
import uuid
from typing import Final, Literal, get_args

from django.contrib.auth.models import AbstractUser
from django.core.exceptions import ValidationError
from django.db import models
from django.db.models import F, Q

_BASE62 = string.digits + string.ascii_letters
_USER_ID_LENGTH = 27
SAMPLING_RATE_MIN: Final = 0.0001
QUEUE_WEIGHT_MAX: Final = 100
# The server tools a workspace can switch off, by their own names.
ServerTool = Literal[
    "router:advisor",
    "router:apply_patch",
    "router:bash",
    "router:datetime",
    "router:fusion",
    "router:image_generation",
    "router:experimental__search_models",
    "router:shell",
    "router:subagent",
    "router:tool_search",
    "router:web_fetch",
    "router:web_search",
]
SERVER_TOOLS: Final[tuple[str, ...]] = get_args(ServerTool)
# Namespace of the ids that default guardrails have for life.
_GUARDRAILS: Final = uuid.UUID("5f0c1c0e-6d0b-4a55-9f6e-2b7f3f1f8a10")


def new_user_id() -> str:
    """An opaque public user id, `user_<27 base62>`."""
    return "user_" + "".join(secrets.choice(_BASE62) for _ in range(_USER_ID_LENGTH))


class User(AbstractUser):
    """A person: operator of the admin, member of accounts, creator of keys.

    `confirmed_email` is the address that the person or an identity provider has proved.
    """

    public_id = models.CharField(max_length=32, unique=True, default=new_user_id, editable=False)
    confirmed_email = models.EmailField(default="", db_default="", blank=True, editable=False)

    def __str__(self) -> str:
        return self.username


class Account(models.Model):
    """One payer. Money is whole nano-dollars: $1.00 is 1_000_000_000.

    The balance is `total_credits_nano - total_usage_nano`; `held_nano` of it is reserved by
    requests in flight. Only the ledger writer and the credits service change these three.
    `limits_version` grows whenever other budgets or key limits apply than before: no hold is placed
    by who has not seen them.
    `allowed_providers` and `ignored_providers` are lists of provider slugs that every request of
    the account keeps to, `allowed_models` one of canonical model slugs; null says nothing. No
    workspace or guardrail allows what the account does not.
    """

    class DataCollection(models.TextChoices):
        ALLOW = "allow", "Allowed"
        DENY = "deny", "Denied"

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    name = models.CharField(max_length=100, unique=True)
    total_credits_nano = models.BigIntegerField(default=0, editable=False)
    total_usage_nano = models.BigIntegerField(default=0, editable=False)
    held_nano = models.BigIntegerField(default=0, editable=False)
    limits_version = models.BigIntegerField(default=0, db_default=0, editable=False)
    allowed_providers = models.JSONField(null=True, blank=True, default=None)
    ignored_providers = models.JSONField(null=True, blank=True, default=None)
    allowed_models = models.JSONField(null=True, blank=True, default=None)
    data_collection = models.CharField(
        max_length=8, choices=DataCollection.choices, default="allow", db_default="allow"
    )
    zdr = models.BooleanField("zero data retention", default=False, db_default=False)
    regional_inference_enabled = models.BooleanField(default=True, db_default=True)
    interns_enabled = models.BooleanField(
        "interns", default=True, db_default=True, help_text="Off: interns and vault answer 404."
    )
    intern_writes_enabled = models.BooleanField(
        default=True,
        db_default=True,
        help_text="Off: interns are not made, changed, provisioned, suspended or deleted.",
    )
    vault_writes_enabled = models.BooleanField(default=True, db_default=True)
    is_personal = models.BooleanField(
        "personal",
        default=False,
        db_default=False,
        help_text="One person's own: it has no list of members and no directory.",
    )
    is_filtered_model_catalog_enabled = models.BooleanField(
        "filtered model catalogue",
        default=False,
        db_default=False,
        help_text="GET /models with a key of this account lists what the key may use.",
    )
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [
            models.CheckConstraint(
                name="accounts_account_held_not_negative", condition=Q(held_nano__gte=0)
            ),
            models.CheckConstraint(
                name="accounts_account_data_collection_known",
                condition=Q(data_collection__in=["allow", "deny"]),
            ),
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def balance_nano(self) -> int:
        return self.total_credits_nano - self.total_usage_nano


class Membership(models.Model):
    """A person's role in an account."""

    class Role(models.TextChoices):
        OWNER = "org:owner", "Owner"
        ADMIN = "org:admin", "Admin"
        BILLING = "org:billing", "Billing"
        MEMBER = "org:member", "Member"

    account = models.ForeignKey(Account, on_delete=models.PROTECT, related_name="memberships")
    user = models.ForeignKey(User, on_delete=models.PROTECT, related_name="memberships")
    role = models.CharField(max_length=16, choices=Role.choices, default=Role.MEMBER)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                name="accounts_membership_once_per_account", fields=["account", "user"]
            ),
            models.CheckConstraint(
                name="accounts_membership_role_known",
                condition=Q(role__in=["org:owner", "org:admin", "org:billing", "org:member"]),
            ),
        ]

    def __str__(self) -> str:
        return f"{self.user} in {self.account}"


class LivingWorkspaces(models.Manager["Workspace"]):
    """Workspaces that were not deleted. The rows of the others stay, because history names them."""

    def get_queryset(self) -> models.QuerySet["Workspace"]:
        return super().get_queryset().filter(deleted_at__isnull=True)


class Workspace(models.Model):
    """Where keys live. Every account has exactly one default workspace.

    `default_text_model` and `default_image_model` serve requests that name no model (empty: none);
    `default_provider_sort` orders the endpoints of requests that ask for no sort and no order.
    `disabled_server_tools` holds names as in `SERVER_TOOLS`, null for none.
    `io_logging_api_key_ids` holds keys' numbers, null for all keys; `io_logging_sampling_rate` is
    the share of requests that are logged. `rate_limits` are as `gateway.limits.rules.dump_limits`
    writes them, null for none. `end_user_budget` holds the interval, the `limit_nano` of each end
    user, and `limits` of some by the hash of their ids; null for none. `tag_budgets` is a list of
    budgets, each with `tag`, `interval` and `limit_nano`; null for none. `member_key_limits` are
    those of keys that members make, by the names of a key's columns; null for none. `hedge` and
    `rescue` hold for requests that do not say otherwise. With `response_cache` these ask for the
    cache, whose answers all keys of the workspace share. `queue_weight`, which operators set, is
    how often it is its turn in front of a full endpoint, beside others. Two flags only say what the
    team allows: data in return for a discount, and sending traces to its destinations.
    """

    class ProviderSort(models.TextChoices):
        PRICE = "price", "Price, lowest first"
        THROUGHPUT = "throughput", "Throughput, highest first"
        LATENCY = "latency", "Time to first token, shortest first"
        EXACTO = "exacto", "Success of tool calls, best first"

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    account = models.ForeignKey(Account, on_delete=models.PROTECT, related_name="workspaces")
    name = models.CharField(max_length=100)
    slug = models.CharField(max_length=50)
    description = models.CharField(max_length=500, null=True, blank=True, default=None)
    is_default = models.BooleanField(default=False)
    default_text_model = models.CharField(max_length=200, blank=True, default="")
    default_image_model = models.CharField(max_length=200, blank=True, default="", db_default="")
    default_provider_sort = models.CharField(
        max_length=16, choices=ProviderSort.choices, null=True, blank=True, default=None
    )
    disabled_server_tools = models.JSONField(null=True, blank=True, default=None)
    io_logging_api_key_ids = models.JSONField(null=True, blank=True, default=None)
    io_logging_sampling_rate = models.FloatField(default=1.0, db_default=1.0)
    is_data_discount_logging_enabled = models.BooleanField(default=False, db_default=False)
    is_observability_broadcast_enabled = models.BooleanField(default=False, db_default=False)
    is_observability_io_logging_enabled = models.BooleanField(default=False, db_default=False)
    include_byok_in_budgets = models.BooleanField(default=False, db_default=False)
    rate_limits = models.JSONField(null=True, blank=True, default=None)
    hedge = models.BooleanField(default=False, db_default=False)
    rescue = models.BooleanField(default=False, db_default=False)
    response_cache = models.BooleanField(default=False, db_default=False)
    queue_weight = models.PositiveSmallIntegerField(default=1, db_default=1)
    tag_budgets = models.JSONField(null=True, blank=True, default=None, editable=False)
    end_user_budget = models.JSONField(null=True, blank=True, default=None, editable=False)
    member_key_limits = models.JSONField(null=True, blank=True, default=None)
    created_by = models.ForeignKey(
        User, on_delete=models.PROTECT, related_name="+", null=True, blank=True, editable=False
    )
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(null=True, blank=True, editable=False)
    deleted_at = models.DateTimeField(null=True, blank=True, editable=False)

    objects = LivingWorkspaces()
    everything = models.Manager["Workspace"]()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                name="accounts_workspace_slug_once_per_account",
                fields=["account", "slug"],
                condition=Q(deleted_at__isnull=True),
            ),
            models.UniqueConstraint(
                name="accounts_workspace_one_default",
                fields=["account"],
                condition=Q(is_default=True),
            ),
            models.CheckConstraint(
                name="accounts_workspace_default_stays",
                condition=Q(is_default=False) | Q(deleted_at__isnull=True),
            ),
            models.CheckConstraint(
                name="accounts_workspace_provider_sort_known",
                condition=Q(default_provider_sort__isnull=True)
                | Q(default_provider_sort__in=["price", "throughput", "latency", "exacto"]),
            ),
            models.CheckConstraint(
                name="accounts_workspace_queue_weight_in_bounds",
                condition=Q(queue_weight__gte=1, queue_weight__lte=QUEUE_WEIGHT_MAX),
            ),
            models.CheckConstraint(
                name="accounts_workspace_sampling_rate_in_bounds",
                condition=Q(
                    io_logging_sampling_rate__gte=SAMPLING_RATE_MIN,
                    io_logging_sampling_rate__lte=1,
                ),
            ),
        ]
        ordering = [F("created_at").desc()]

    def __str__(self) -> str:
        return f"{self.account}/{self.slug}"

    @property
    def default_guardrail_id(self) -> uuid.UUID:
        """The id its default guardrail has, also before there is one."""
        return uuid.uuid5(_GUARDRAILS, f"workspace-default-guardrail:{self.pk}")


def default_workspace_id(account_id: uuid.UUID) -> uuid.UUID:
    """The default workspace's id: UUID v5 of the account id."""
    return uuid.uuid5(account_id, "default")


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
