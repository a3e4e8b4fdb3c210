"""A database as an operator finds it: every table filled, secrets planted where they belong."""

import itertools
import uuid
from datetime import UTC, datetime, timedelta
from typing import Any

from django.db import transaction

from accounts import models as of_accounts
from accounts.models import Account, ApiKey, LedgerEntry, Membership, User, Workspace
from accounts.services.books.credits import add_credits
from accounts.services.books.metrics import record_audit
from accounts.services.channels import create_channel, send_test_message
from accounts.services.keys import create_key
from accounts.services.organization import admit_member, open_account, open_workspace
from accounts.services.records import SYSTEM
from accounts.spending import ALL_TIME
from interns import models as of_interns
from routing.catalogue.credentials import ProviderCredential
from routing.catalogue.models import Endpoint, Model, ModelAlias, Provider
from routing.catalogue.version import CatalogueServing
from routing.destinations.services import create_destination
from routing.history import models as of_history
from routing.history.columns import FIGURES, SUMS
from routing.metering.models import CredentialSpend, Generation
from routing.metering.popularity import CallsCounted, DailyCalls
from routing.presets.models import Preset, PresetVersion
from routing.reports.models import FailedRequest, FailedRequestCount
from routing.statistics.models import EndpointSample, ProviderProbe

CREDENTIAL = "canary-of-a-provider-credential"
_numbers = itertools.count(1)


def fill(rows: int) -> list[str]:
    """Add that many rows to every table; returns the strings of the keys made."""
    return [_one(next(_numbers)) for _ in range(rows)]


def _one(number: int) -> str:
    now = datetime.now(UTC)
    account = open_account(name=f"account {number}")
    workspace = open_workspace(account=account, slug=f"workspace-{number}")
    user = admit_member(account=account, username=f"user-{number}", role=Membership.Role.MEMBER)
    membership = Membership.objects.get(account=account, user=user)
    of_accounts.WorkspaceMembership.objects.create(
        workspace=workspace, membership=membership, role="member"
    )
    of_accounts.WorkspaceBudget.objects.create(
        workspace=workspace, interval="monthly", limit_nano=5, created_at=now, updated_at=now
    )
    key, string = create_key(
        account=account, name=f"key {number}", workspace=workspace, creator=user, limit_nano=5
    )
    guardrail = workspace.guardrails.create(name=f"guardrail {number}")
    of_accounts.GuardrailKey.objects.create(guardrail=guardrail, api_key=key)
    of_accounts.GuardrailMember.objects.create(guardrail=guardrail, membership=membership)
    of_accounts.FormerHash.objects.create(
        hash=f"{number:064x}", api_key=key, valid_until=now + timedelta(days=1)
    )
    entry, _ = add_credits(
        account=account, amount_nano=5, source="test", source_ref=f"payment {number}"
    )
    of_accounts.PurchaseFee.objects.create(entry=entry, paid_nano=6, fee_nano=1)
    of_accounts.ByokCredential.objects.create(
        account=account, workspace=workspace, provider="acme", label="sk-...AbCd", sealed="v1:x"
    )
    create_destination(
        account_id=account.pk,
        workspace_id=workspace.pk,
        type="posthog",
        name=f"destination {number}",
        config={"apiKey": CREDENTIAL},
        by=SYSTEM,
    )
    _books(number, account, workspace, key)
    _catalogue(number)
    preset(workspace, user, f"preset-{number}")
    _intern_life(number, workspace, user, key)
    _notifications(number, account)
    _directory(number, workspace, user, key)
    _failures(number, workspace, key)
    return string


def _directory(number: int, workspace: Workspace, user: User, key: ApiKey) -> None:
    now = datetime.now(UTC)
    account, whose = workspace.account, {"created_at": now, "updated_at": now}
    app = of_accounts.App.objects.create(account=account, name="App", authorized_at=now)
    of_accounts.AuthorizationCode.objects.create(
        code_hash=f"{number:064x}",
        app=app,
        workspace=workspace,
        operator=user,
        key_name="App",
        created_at=now,
    )
    of_accounts.ScimUser.objects.create(
        account=account, user=user, user_name=f"person-{number}", **whose
    )
    of_accounts.DeletedScimUser.objects.create(
        account=account, user=user, user_name=f"former-{number}", deleted_at=now
    )
    group = of_accounts.ScimGroup.objects.create(account=account, display_name="Group", **whose)
    of_accounts.ScimGroupMapping.objects.create(
        group=group, workspace=workspace, role="member", **whose
    )
    of_accounts.ScimSyncJob.objects.create(account=account, management_key=key, created_at=now)
    of_accounts.PersonIdentity.objects.create(
        user=user, issuer="https://id.example", subject=f"s-{number}"
    )
    of_accounts.ClaimMapping.objects.create(account=account, value=f"group {number}")
    issuer = of_accounts.TrustedIssuer.objects.create(
        account=account, name="CI", url="https://ci.example", audience="gateway"
    )
    of_accounts.Workload.objects.create(issuer=issuer, conditions={"sub": "repo:*"}, key=key)


def _failures(number: int, workspace: Workspace, key: ApiKey) -> None:
    failure: dict[str, Any] = {
        "account_id": workspace.account_id,
        "workspace_id": workspace.pk,
        "api_key_id": key.pk,
        "status": 402,
        "error_type": "payment_required",
        "reason": "credits",
    }
    failed_request(datetime.now(UTC), request_id=f"req-{number}", **failure)
    FailedRequestCount.objects.create(
        key=f"{number:032x}", minute=datetime.now(UTC), is_refused=True, requests=2, **failure
    )


def _notifications(number: int, account: Account) -> None:
    """A channel with a message on its way, and an alarm."""
    url = "https://hooks.example/in"
    made = create_channel(
        account_id=account.pk, by=SYSTEM, name=f"channel {number}", type="webhook", url=url
    )
    send_test_message(made.row)
    of_accounts.Alarm.objects.create(subject=f"test:{number}", changed_at=datetime.now(UTC))
    record_audit(number, at=datetime.now(UTC))


def _books(number: int, account: Account, workspace: Workspace, key: ApiKey) -> None:
    now = datetime.now(UTC) - timedelta(days=number)
    owner: dict[str, Any] = {"account": account, "workspace": workspace, "api_key": key}
    asked = {"generation_id": f"gen-{number}", "created_at": now}
    usage = {"kind": LedgerEntry.Kind.USAGE, "source": "generation", "source_ref": f"gen-{number}"}
    LedgerEntry.objects.create(**owner, **asked, **usage, amount_nano=2)
    Account.objects.filter(pk=account.pk).update(total_usage_nano=2)
    counter = of_accounts.SpendCounter.objects.create(
        scope="key", scope_id=str(key.pk), window="total", window_start=ALL_TIME, spent_nano=2
    )
    of_accounts.Hold.objects.create(
        **owner,
        generation_id=f"gen-held-{number}",
        amount_nano=0,
        counter_ids=str(counter.pk),
        model="acme/one",
        created_at=now,
        lease_expires_at=now,
    )
    of_accounts.SignInAttempts.objects.create(subject=f"{number:064d}", last_at=datetime.now(UTC))
    of_accounts.RepeatableRequest.objects.create(
        **asked,
        account=account,
        api_key=key,
        path="/api/v1/chat/completions",
        body_hash="0" * 64,
        lease_id=uuid.uuid4(),
        status=200,
        **dict.fromkeys(("lease_until", "finished_at", "expires_at"), now),
    )
    generation(id=f"gen-{number}", **owner, created_at=now, charge_nano=2, hold_nano=3)
    _history(number, account, key, now)


def _history(number: int, account: Account, key: ApiKey, at: datetime) -> None:
    """A row of each table that history is kept in."""
    named = {"account_id": account.pk, "generation_id": f"gen-{number}"}
    line = of_history.UsageLine.objects.create(
        key=f"{number:032x}",
        account_id=account.pk,
        workspace_id=key.workspace_id or account.pk,
        api_key_id=key.pk,
        model="acme/one",
    )
    counted = {"line_id": line.pk, "account_id": account.pk, "start": at}
    for kind in (of_history.UsageHour, of_history.UsageDay, of_history.UsageBrief):
        kind.objects.create(**counted, **dict.fromkeys(SUMS, 1))
    spread = {"cut": 0, "measure": "latency_ms", "bucket": 1, "many": 1, "figures": [1]}
    of_history.UsageSpread.objects.create(**counted, **spread)
    of_history.GenerationFact.objects.create(
        **named, line_id=line.pk, at=at, **dict.fromkeys(FIGURES, 1)
    )
    of_history.GenerationContent.objects.create(**named, created_at=at, sealed=b"sealed")
    of_history.DecisionCalibration.objects.create(
        account_id=account.pk,
        model="acme/one",
        measured_at=at,
        temperature=1.5,
        is_applied=False,
        answers=10,
        before={},
        after={},
    )
    of_history.GenerationFeedback.objects.create(
        **named, api_key_id=key.pk, category="other", created_at=at, generation_at=at
    )
    of_history.LateHour.objects.create(hour=at)
    of_history.UsageRolled.objects.create(pk=1 + number, until=at)


def generation(**fields: Any) -> Generation:
    """A generation that was answered by its second attempt; `fields` replace what it says."""
    attempt = {
        "status": 503,
        "provider_name": "First",
        "model_permaslug": "acme/one",
        "endpoint_id": "first",
        "id": None,
        "latency": 3,
        "is_byok": False,
        "routed_service_tier": "default",
        "error_type": "provider_overloaded",
    }
    second = {**attempt, "status": 200, "provider_name": "Second", "error_type": None}
    usual: dict[str, Any] = {
        "model": "acme/one",
        "requested_model": "acme/one",
        "provider_name": "Second",
        "status": 200,
        "streamed": False,
        "finish_reason": "stop",
        "attempts": [attempt, second],
        "detail": {"user_agent": "<script>tester</script>", "pricing": {"prompt": "1"}},
    }
    return Generation.objects.create(**usual | fields)


def failed_request(at: datetime, **fields: Any) -> FailedRequest:
    """A request of nobody in particular that was refused; `fields` replace what it says."""
    usual: dict[str, Any] = {
        "request_id": f"req-{at:%j}",
        "account_id": uuid.UUID(int=7),
        "api_key_id": 7,
        "format": "chat",
        "requested_model": "acme/one",
        "streamed": False,
        "status": 402,
        "error_type": "payment_required",
        "reason": "key_limit",
        "duration_ms": 1,
    }
    return FailedRequest.objects.create(at=at, **usual | fields)


def preset(workspace: Workspace, creator: User, slug: str) -> Preset:
    """A preset of one version."""
    now = datetime.now(UTC)
    version = PresetVersion(version=1, creator=creator, created_at=now)
    version.config, version.system_prompt = '{"temperature":1}', "<script>prompt"
    with transaction.atomic():
        version.preset = Preset.objects.create(
            account=workspace.account,
            workspace=workspace,
            slug=slug,
            name=slug.replace("-", " ").capitalize(),
            creator=creator,
            designated_version_id=version.pk,
            created_at=now,
            updated_at=now,
        )
        version.save()
    return version.preset


def _intern_life(number: int, workspace: Workspace, user: User, key: ApiKey) -> None:
    """An intern that runs, with a row of each table that tells of it."""
    now = datetime.now(UTC)
    made = {"created_at": now}
    intern = of_interns.Intern.objects.create(
        workspace=workspace,
        creator=user,
        name=f"intern-{number}",
        hostname=f"intern-{number}.interns.localhost",
        status="running",
        status_since=now,
        api_key=key,
        runtime={"pid": number, "log": "<script>"},
        booted_at=now,
        updated_at=now,
        **made,
    )
    named: dict[str, Any] = {"intern_id": intern.pk, "intern_name": intern.name}
    named["account_id"] = workspace.account_id
    of_interns.InternTransition.objects.create(
        **named, at=now, rule="T10", from_status="provisioning", to_status="running", by="<b>w</b>"
    )
    of_interns.InternCreation.objects.create(
        intern=intern, body_hash="0" * 64, expires_at=now, **made
    )
    archive = {"uri": "one.tar", "sha256": "0" * 64, "bytes": 10, "expires_at": now}
    of_interns.WorkspaceArchive.objects.create(
        **named, **archive, workspace_id=workspace.pk, **made
    )
    vault = of_interns.Vault.objects.create(
        workspace=workspace,
        intern=intern,
        sealed_data_key="canary-data-key",
        master_key_id="m",
        **made,
    )
    of_interns.VaultSecret.objects.create(
        vault=vault,
        name="github_token",
        sealed="canary-sealed-secret",
        hosts=["api.github.com"],
        fingerprint="sha256:" + "0" * 64,
        updated_at=now,
        **made,
    )
    of_interns.InternHost.objects.create(
        name=f"host-{number}",
        home_id=intern.pk,
        memory_bytes=8_000_000_000,
        free_memory_bytes=4_000_000_000,
        alive_since=now,
        last_seen_at=now,
    )
    session = of_interns.ChatSession.objects.create(intern=intern, session_id=f"s-{number}", **made)
    run = of_interns.ChatRun.objects.create(intern=intern, session=session, by=user, started_at=now)
    asked = {"kind": "permission", "arguments": {"kind": "permission"}}
    of_interns.ChatInteraction.objects.create(
        run=run, tool_call_id="call-1", **asked, asked_at=now, deadline_at=now
    )


def _catalogue(number: int) -> None:
    provider = Provider(
        slug=f"provider-{number}", name=f"Provider {number}", base_url="http://127.0.0.1:9/v1"
    )
    provider.set_credential(CREDENTIAL)
    provider.save()
    model = Model.objects.create(
        slug=f"acme/model-{number}",
        canonical_slug=f"acme/model-{number}",
        name=f"Model {number}",
        created=1_767_225_600,
        input_modalities=["text"],
        output_modalities=["text"],
    )
    ModelAlias.objects.create(alias=f"acme/alias-{number}", model=model)
    served = endpoint(model, provider)
    now = datetime.now(UTC)
    pooled = ProviderCredential(provider=provider, label="first")
    pooled.set_secret(CREDENTIAL)
    pooled.save()
    CredentialSpend.objects.create(
        provider=provider.slug, label="first", day=now.date(), requests=1, cost_nano=5
    )
    EndpointSample.objects.create(endpoint=served, started_at=now, calls=4, errors=1)
    DailyCalls.objects.create(model=model.slug, day=now.date(), calls=3)
    CallsCounted.objects.create(until=now)
    ProviderProbe.objects.create(provider=provider, at=now, ok=True, since=now, status=200)
    CatalogueServing.objects.create(
        process=f"process {number}", version=1, seen_at=datetime.now(UTC)
    )


def endpoint(model: Model, provider: Provider, **fields: Any) -> Endpoint:
    """A priced endpoint of these two."""
    usual: dict[str, Any] = {
        "tag": provider.slug,
        "upstream_model": "one",
        "pricing": {"prompt": "0.000001", "completion": "0.000002"},
        "supported_parameters": ["max_tokens"],
    }
    return Endpoint.objects.create(model=model, provider=provider, **usual | fields)
