"""Who is calling: everything the hot path wants to know of a key. It is read in one query, or two
where the account brought credentials of its own."""

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from ipaddress import ip_network
from typing import Any, Literal, NamedTuple

from django.db.models import Exists, OuterRef, Subquery

from accounts.byok import ByokEntry, load_credentials
from accounts.guard_rules import (
    Guard,
    GuardrailEntry,
    build_entries,
    build_guardrail_scopes,
    combine_guardrails,
    load_applied_guardrails,
    match_guardrails,
)
from accounts.models import (
    Account,
    ApiKey,
    ByokCredential,
    Membership,
    Workspace,
    WorkspaceBudget,
)
from accounts.roles import may_have_key
from accounts.spending import (
    EndUserBudget,
    SpendScope,
    TagBudget,
    build_tag_scopes,
    build_workspace_scopes,
    find_limited_window,
    read_end_user_budget,
    read_tag_budgets,
)
from gateway.database.compiled_queries import CompiledQuery
from gateway.end_users import hash_user
from gateway.http.address import MAIN_REGION, Network
from gateway.http.jsonio import JsonObject
from gateway.limits.rules import RateRule, build_rules, share_rules

ProviderSort = Literal["price", "throughput", "latency", "exacto"]


class IoLogging(NamedTuple):
    """The share of a key's requests, above 0 and up to 1, whose content is kept."""

    sampling_rate: float


@dataclass(frozen=True, slots=True)
class Caller:
    """A key as it stood when it was read. `creator_left` means the creator is no member any more.

    `workspace_id` is None for management keys. `allowed_providers` and `ignored_providers` are the
    account's own lists; None allows every provider. `disabled_server_tools` is the workspace's.
    `byok` are the provider credentials that the team brought and this key may use, in their order.
    `limited` is the window that the key's own limit stands on, "" where it has none. `budgets` are
    all that apply beside, in the order in which they refuse. `end_user_budget` and `tag_budgets`
    are not among them, as they depend on the request. They are at least as new as the account's
    `limits_version`.
    """

    key_id: int
    key_hash: str
    management: bool
    account_id: uuid.UUID
    workspace_id: uuid.UUID | None
    creator_id: str | None
    creator_left: bool
    disabled: bool
    expires_at: datetime | None
    default_text_model: str
    default_provider_sort: ProviderSort | None = None
    allowed_providers: tuple[str, ...] | None = None
    ignored_providers: tuple[str, ...] = ()
    disabled_server_tools: frozenset[str] = frozenset()
    key_name: str = ""
    # The masked form that `/keys` shows.
    key_label: str = ""
    workspace_slug: str = ""
    # What the account ever bought.
    bought_nano: int = 0
    budgets: tuple[SpendScope, ...] = ()
    # What each end user of the workspace may spend; None where nothing limits them.
    end_user_budget: EndUserBudget | None = None
    tag_budgets: tuple[TagBudget, ...] = ()
    limited: str = ""
    limits_version: int = 0
    # The account's policy, its workspace's default guardrail, the member's, the key's; and as one.
    guardrails: tuple[GuardrailEntry, ...] = ()
    guard: Guard | None = None
    regional_inference: bool = True
    # The creator's number among the users.
    creator_key: int | None = None
    byok: tuple[ByokEntry, ...] = ()
    io_logging: IoLogging | None = None
    # Whether the workspace lets its destinations have what becomes of requests.
    broadcasts: bool = False
    # Whether an app was given it.
    is_of_app: bool = False
    # The intern whose own key it is.
    intern_id: uuid.UUID | None = None
    interns_enabled: bool = True
    intern_writes_enabled: bool = True
    vault_writes_enabled: bool = True
    # GET /models lists what the key may use, and nothing else.
    filters_catalogue: bool = False
    # What a management key may do; None is everything.
    scopes: frozenset[str] | None = None
    # The workspaces that a management key is for; None is all, and the account itself.
    managed_workspaces: frozenset[uuid.UUID] | None = None
    # The creator's role in the account, as `Membership.role`; None for a key of nobody.
    creator_role: str | None = None
    # Where the key may be used from; None is anywhere.
    allowed_networks: tuple[Network, ...] | None = None
    # The key's own, then its workspace's.
    rate_rules: tuple[RateRule, ...] = ()
    # What the key, else its workspace, wants for requests that do not say otherwise.
    hedge: bool = False
    rescue: bool = False
    # Whether the workspace has its keys share the response cache, and ask for it.
    shares_cache: bool = False
    # How often it is the workspace's turn in front of a full endpoint, beside others.
    queue_weight: int = 1

    def is_usable(self, now: datetime) -> bool:
        return not self.disabled and (self.expires_at is None or self.expires_at > now)

    def admits_region(self, region: str) -> bool:
        """Whether the account is entitled to the regional host, and no guardrail forbids it."""
        if region != MAIN_REGION and not self.regional_inference:
            return False
        return self.guard is None or self.guard.admits(region)

    def list_budgets(self, user: str | None, tags: Mapping[str, str]) -> tuple[SpendScope, ...]:
        """The budgets that a request for this end user counts against, in the order in which they
        refuse. These are the key's, its tags', and the user's own last."""
        budget, budgets = self.end_user_budget, self.budgets
        if self.tag_budgets and tags:
            budgets = (*budgets, *build_tag_scopes(self.tag_budgets, tags))
        if budget is None or not user:
            return budgets
        scope = budget.build_scope(hash_user(self.account_id, user))
        return budgets if scope is None else (*budgets, scope)


def read_caller(key_hash: str) -> Caller | None:
    """The caller behind the hash of a key's string, or of a former one in its grace period.

    None when there is no such key (or it was deleted).
    """
    key = next(iter(_query_by_hash(key_hash=key_hash)), None)
    if key is not None and key.hash != key_hash:
        # It is a former string, which expires when its grace period ends.
        key = next(iter(_query_by_former_hash(key_hash=key_hash)), None)
        if key is not None:
            key.expires_at = min(key.string_until, key.expires_at or key.string_until)
    if key is None:
        return None
    creator = key.creator
    # By an operator, who closes every door to the person, keys among them.
    is_switched_off = creator is not None and not creator.is_active
    # Keys of a playground ask once more whether their person may have one there at all.
    person = key.playground_user_id
    return Caller(
        key_id=key.pk,
        key_hash=key_hash,
        management=key.is_management,
        account_id=key.account_id,
        workspace_id=key.workspace_id,
        creator_id=creator.public_id if creator else None,
        creator_key=key.creator_id,
        creator_left=creator is not None and key.creator_role is None,
        creator_role=key.creator_role if creator else None,
        disabled=key.disabled
        or is_switched_off
        or (person is not None and not may_have_key(person, key.workspace)),
        expires_at=key.expires_at,
        key_name=key.name,
        key_label=key.label,
        workspace_slug=key.workspace.slug if key.workspace else "",
        bought_nano=key.account.total_credits_nano,
        byok=load_credentials(key) if key.has_byok and key.workspace_id else (),
        io_logging=_read_io_logging(key),
        broadcasts=bool(key.workspace and key.workspace.is_observability_broadcast_enabled),
        is_of_app=key.app_id is not None,
        intern_id=key.intern_id,
        interns_enabled=key.account.interns_enabled,
        intern_writes_enabled=key.account.intern_writes_enabled,
        vault_writes_enabled=key.account.vault_writes_enabled,
        filters_catalogue=key.account.is_filtered_model_catalog_enabled,
        scopes=None if key.scopes is None else frozenset(key.scopes),
        managed_workspaces=None
        if key.managed_workspaces is None
        else frozenset(map(uuid.UUID, key.managed_workspaces)),
        allowed_networks=None
        if key.allowed_ips is None
        else tuple(ip_network(each) for each in key.allowed_ips),
        # Read with the key, so before the budgets: what changes in between shows.
        limits_version=key.account.limits_version,
        limited=find_limited_window(key),
        end_user_budget=read_end_user_budget(key.workspace) if key.workspace else None,
        tag_budgets=read_tag_budgets(key.workspace) if key.workspace else (),
        **_read_defaults(key),
        **_load_limits(key),
    )


def _load_limits(key: Any) -> JsonObject:
    """What rate limits, guardrails and the account's policy hold the key to. It takes one more
    query where there are guardrails, and one where its workspace has budgets."""
    rate_rules = build_rules(f"key:{key.pk}", key.rate_limits)
    if key.workspace is not None and key.workspace.rate_limits:
        shared = build_rules(f"workspace:{key.workspace_id}", key.workspace.rate_limits)
        rate_rules = share_rules(rate_rules + shared)
    governing = load_applied_guardrails(key) if key.has_guardrails else []
    entries = build_entries(key, governing)
    return {
        "rate_rules": rate_rules,
        "guardrails": entries,
        "guard": combine_guardrails(entries) if entries else None,
        "budgets": (
            *build_guardrail_scopes(key, governing),
            *(
                build_workspace_scopes(key.workspace, key.workspace.budgets.all())
                if key.has_budgets
                else ()
            ),
        ),
        "regional_inference": key.account.regional_inference_enabled,
    }


def _select_keys() -> Any:
    """Living keys of living workspaces with all that a caller is made of, in one query."""
    member = Membership.objects.filter(account=OuterRef("account"), user=OuterRef("creator"))
    # Few accounts have any, and a second query is for them alone.
    brought = ByokCredential.objects.living().filter(account=OuterRef("account"), disabled=False)
    budgets = WorkspaceBudget.objects.filter(workspace=OuterRef("workspace"))
    return (
        ApiKey.objects.living()
        .select_related("account", "workspace", "creator")
        .annotate(
            creator_role=Subquery(member.values("role")[:1]),
            has_guardrails=match_guardrails(),
            has_byok=Exists(brought),
            has_budgets=Exists(budgets),
        )
    )


# In the order of their rows, as `first` has it. Time tells nobody whether a string is a key.
_query_by_hash: CompiledQuery[Any] = CompiledQuery(
    lambda key_hash: _select_keys().of_string(key_hash).order_by("pk")[:1],
    evenly=True,
    key_hash=str,
)
_query_by_former_hash: CompiledQuery[Any] = CompiledQuery(
    lambda key_hash: _select_keys().formerly(key_hash).order_by("pk")[:1], key_hash=str
)


def _read_io_logging(key: Any) -> IoLogging | None:
    """What the workspace wants kept of this key's requests; None is nothing."""
    workspace = key.workspace
    if workspace is None or not workspace.is_observability_io_logging_enabled:
        return None
    keys = workspace.io_logging_api_key_ids
    if keys is not None and key.pk not in keys:
        return None
    return IoLogging(workspace.io_logging_sampling_rate)


def _read_defaults(key: Any) -> JsonObject:
    """What the key, its workspace and its account have to say about every request."""
    account: Account = key.account
    workspace: Workspace | None = key.workspace
    return {
        "default_text_model": workspace.default_text_model if workspace else "",
        "default_provider_sort": workspace.default_provider_sort if workspace else None,
        "allowed_providers": tuple(account.allowed_providers or ()) or None,
        "ignored_providers": tuple(account.ignored_providers or ()),
        "disabled_server_tools": frozenset(
            (workspace.disabled_server_tools or ()) if workspace else ()
        ),
        "hedge": bool(workspace and workspace.hedge) if key.hedge is None else key.hedge,
        "rescue": bool(workspace and workspace.rescue) if key.rescue is None else key.rescue,
        "shares_cache": workspace is not None and workspace.response_cache,
        "queue_weight": 1 if workspace is None else workspace.queue_weight,
    }
