"""An account with somebody in each role, their keys, and what these did."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from django.test import Client

from accounts.models import Account, ApiKey, Membership, User, Workspace
from accounts.roles import Action, Role, allows
from accounts.services.keys import create_key
from accounts.services.organization import admit_member, open_account, open_workspace
from routing.metering.models import Generation
from routing.reports.models import FailedRequest
from tests.support.operations import generation

# From the least to the most: a person's role in the account, and in the workspace `led`.
_RANKS = {
    "member": (Role.MEMBER, Role.WORKSPACE_MEMBER),
    "viewer": (Role.MEMBER, Role.WORKSPACE_VIEWER),
    "billing": (Role.BILLING, None),
    "lead": (Role.MEMBER, Role.WORKSPACE_ADMIN),
    "admin": (Role.ADMIN, None),
    "owner": (Role.OWNER, None),
    "operator": (Role.OPERATOR, None),
}
ROLES = tuple(_RANKS)
# Those who belong to the account.
TENANTS = ROLES[:-1]


def list_allowed(action: Action) -> tuple[str, ...]:
    """Who may in the workspace, by either role."""
    return tuple(
        name
        for name, ranks in _RANKS.items()
        if any(rank and allows(rank, action) for rank in ranks)
    )


# Those who rule the account, and those who decide in the workspace.
ADMINS = list_allowed(Action.WORKSPACES)
LEADS = list_allowed(Action.OTHERS_KEYS)
BACKEND = "django.contrib.auth.backends.ModelBackend"


@dataclass
class Team:
    """`own`, `led` and `far` are keys, each with a generation and a refused request. They are the
    member's own and the admin's in the lead's workspace, and the admin's in the default one."""

    account: Account
    people: dict[str, User]
    keys: dict[str, ApiKey]
    generations: dict[str, Generation]
    refused: dict[str, FailedRequest]

    @property
    def led(self) -> Workspace:
        return self.account.workspaces.get(slug="led")

    def workspace_of(self, role: str) -> Workspace:
        """Where the person may have a key: the lead's workspace, unless they only look at it."""
        slug = "default" if role in ("viewer", "billing") else "led"
        return self.account.workspaces.get(slug=slug)

    def client(self, role: str) -> Client:
        client = Client(headers={"Accept": "text/html"})
        client.force_login(self.people[role], backend=BACKEND)
        return client


def make_team(name: str) -> Team:
    account = open_account(name=name)
    led = open_workspace(account=account, slug="led")
    default = account.workspaces.get(is_default=True)
    roles = {
        "admin": Membership.Role.ADMIN,
        "owner": Membership.Role.OWNER,
        "billing": Membership.Role.BILLING,
    }
    people = {
        role: admit_member(
            account=account, username=f"{name}-{role}", role=roles.get(role, Membership.Role.MEMBER)
        )
        for role in TENANTS
    }
    people["operator"] = User.objects.create(username=f"{name}-operator", is_staff=True)
    for role, rank in (("lead", "admin"), ("member", "member"), ("viewer", "viewer")):
        membership = Membership.objects.get(account=account, user=people[role])
        led.memberships.create(membership=membership, role=rank)
    made: dict[str, tuple[Workspace, User]] = {
        "own": (led, people["member"]),
        "led": (led, people["admin"]),
        "far": (default, people["admin"]),
    }
    keys = {
        key: create_key(account=account, name=f"{name} {key}", workspace=where, creator=creator)[0]
        for key, (where, creator) in made.items()
    }
    generations = {key: ask(row, f"gen-{name}-{key}") for key, row in keys.items()}
    return Team(account, people, keys, generations, {k: refuse(v) for k, v in keys.items()})


def ask(key: ApiKey, pk: str, *, ago: timedelta = timedelta(0), **fields: Any) -> Generation:
    """A generation of this key."""
    usual: dict[str, Any] = {
        "created_at": datetime.now(UTC) - ago,
        "charge_nano": 4_400,
        "hold_nano": 10_000,
        "latency_ms": 62,
        "generation_time_ms": 90,
        "tokens_prompt": 12,
        "tokens_completion": 8,
    }
    owner = {"account": key.account, "workspace": key.workspace, "api_key": key}
    return generation(pk=pk, **owner, **usual | fields)


def refuse(key: ApiKey, *, ago: timedelta = timedelta(0), **fields: Any) -> FailedRequest:
    """A request of this key that no provider was asked for."""
    usual: dict[str, Any] = {
        "at": datetime.now(UTC) - ago,
        "request_id": f"req-{key.pk}",
        "format": "chat",
        "requested_model": "acme/one",
        "streamed": False,
        "status": 402,
        "error_type": "insufficient_credits",
        "reason": "key_limit",
        "text": "The key's limit is reached",
        "duration_ms": 1,
    }
    owner = {
        "account_id": key.account_id,
        "workspace_id": key.workspace_id,
        "api_key_id": key.pk,
    }
    return FailedRequest.objects.create(**owner, **usual | fields)
