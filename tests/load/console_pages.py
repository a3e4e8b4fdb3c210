"""How fast the console's pages are made with a million generations, in a process of its own.

`python -m tests.load.console_pages ROWS ROUNDS` fills the database of DATABASE_URL, as the part
`history` does, with as many entries in the ledger. It must be a new database on PostgreSQL. It asks
for every page through Django as an admin of the account and as an operator. It prints what each
took, and what each took first, with nothing remembered of the hours that were rolled up.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import yaml

from tests.load.apart import print_measured
from tests.load.history import DAYS, fill_generations, open_bench_account
from tests.support.catalogue import rewritten

_WARM_ROUNDS: Final = 2
_FIRST_ROUNDS: Final = 5
_LISTS: Final = (
    *("home", "first_token", "top_models", "top_keys", "requests", "models", "compare_models"),
    *("playground", "keys", "new_key"),
    *("workspaces", "people"),
    *("credits", "settings", "logging", "audit", "destinations", "alerts"),
    *("guardrails", "providers", "presets", "decisions", "interns", "new_intern", "what_if"),
)
_FILL_LEDGER: Final = """
INSERT INTO accounts_ledgerentry (account_id, workspace_id, api_key_id, kind, amount_nano,
  byok_nano, generation_id, day, source, source_ref, note, created_at)
SELECT account_id, workspace_id, api_key_id, 'usage', charge_nano, 0, id, created_at::date,
  'generation', id, '', created_at FROM routing_generation
"""
_FILL_COUNTERS: Final = """
INSERT INTO accounts_spendcounter (scope, scope_id, "window", window_start, spent_nano, held_nano)
SELECT 'key', api_key_id::text, 'day', day, SUM(amount_nano), 0 FROM accounts_ledgerentry
WHERE kind = 'usage' GROUP BY api_key_id, day
"""


@dataclass(frozen=True)
class Pages:
    """Each page's milliseconds, those of this process's CPU, and those of somebody who comes first,
    by its name; and its statements."""

    rows: int
    taken_ms: dict[str, list[float]] = field(default_factory=dict)
    cpu_ms: dict[str, list[float]] = field(default_factory=dict)
    first_ms: dict[str, list[float]] = field(default_factory=dict)
    statements: dict[str, int] = field(default_factory=dict)


def measure(rows: int, rounds: int) -> Pages:
    """Fill, sum up, ask. Django must be set up."""
    from django.db import connection
    from django.test.utils import CaptureQueriesContext

    now = datetime.now(UTC)
    asked = list_pages(fill_account(rows, now), now)
    pages = Pages(rows)
    for number in range(_WARM_ROUNDS + rounds):
        for name, ask in asked.items():
            began_s, cpu_s = time.perf_counter(), time.process_time()
            if number == 0:
                with CaptureQueriesContext(connection) as captured:
                    ask()
                pages.statements[name] = len(captured)
            else:
                ask()
            if number >= _WARM_ROUNDS:
                taken_ms = (time.perf_counter() - began_s) * 1000
                pages.taken_ms.setdefault(name, []).append(taken_ms)
                pages.cpu_ms.setdefault(name, []).append((time.process_time() - cpu_s) * 1000)
    for _ in range(_FIRST_ROUNDS):
        for name, ask in asked.items():
            _forget_sums()
            began_s = time.perf_counter()
            ask()
            pages.first_ms.setdefault(name, []).append((time.perf_counter() - began_s) * 1000)
    return pages


def _forget_sums() -> None:
    """As after an hour was rolled up, when nobody has looked since."""
    from console.queries.sums import rolled_sums
    from console.queries.usage import latencies

    rolled_sums.forget()
    latencies.forget()


def fill_account(rows: int, now: datetime) -> Mapping[str, Any]:
    """An account with so many generations, summed up; what `open_bench_account` says of it."""
    from django.core.management import call_command
    from django.db import connection

    from routing.catalogue.load import load_catalogue
    from routing.history.rollup import roll_up

    call_command("migrate", verbosity=0)
    load_catalogue(yaml.safe_load(rewritten("http://127.0.0.1:9")))
    _, owner = open_bench_account()
    fill_generations(owner, rows, now)
    while roll_up(now):
        pass
    with connection.cursor() as cursor:
        cursor.execute(_FILL_LEDGER)
        cursor.execute(_FILL_COUNTERS)
        # What autovacuum does some minutes after rows were written.
        cursor.execute("VACUUM ANALYZE")
    return owner


def add_rules(account_id: Any, workspace_id: Any) -> Any:
    """A budget and a guardrail of the workspace; the guardrail's id."""
    from accounts.services.guardrails import create_guardrail
    from accounts.services.records import SYSTEM
    from accounts.services.workspace_budgets import set_budget

    budget: Any = {"interval": "monthly", "limit_nano": 10**15, "include_byok": None}
    set_budget(account_id=account_id, reference=str(workspace_id), by=SYSTEM, **budget)
    filters = {"content_filter_builtins": [{"slug": "email", "action": "block"}]}
    place: Any = {"account_id": account_id, "workspace_id": workspace_id}
    return create_guardrail(**place, by=SYSTEM, settings={"name": "bench", **filters}).pk


def list_pages(owner: Mapping[str, Any], now: datetime) -> dict[str, Callable[[], None]]:
    """Every page by its path; each asks once, and must be answered. Those for operators alone are
    asked for by one."""
    from django.test import Client
    from django.urls import reverse

    from accounts.models import Account, User, Workspace
    from routing.catalogue.models import Model, Provider
    from routing.metering.models import Generation

    account, workspace = owner["account"], Workspace.objects.get(pk=owner["workspace"])
    guardrail_id = add_rules(account, workspace.pk)
    middle = Generation.objects.filter(
        account_id=account, created_at__gte=now - timedelta(days=DAYS // 2)
    )
    chosen = middle.order_by("created_at").values_list("pk", flat=True)[0]
    person, provider = User.objects.get(username="bench"), Provider.objects.first()
    model = Model.objects.first()
    assert provider is not None
    assert model is not None
    names: dict[str, list[Any]] = {
        **{name: [] for name in _LISTS},
        "request": [chosen],
        "model": [model.slug],
        "key": [owner["keys"][0]],
        "workspace": [workspace.pk],
        "person": [person.public_id],
        "guardrail": [guardrail_id],
        "guardrail_replay": [guardrail_id],
        "provider": [provider.slug],
    }
    operated: dict[str, list[Any]] = {"new_provider": [], "prices": [provider.slug]}
    operator = User.objects.create(username="operator", is_staff=True)
    assert Account.objects.count() == 1

    def build(user: User, name: str, args: list[Any]) -> Callable[[], None]:
        client = Client(headers={"Accept": "text/html"})
        client.force_login(user, backend="django.contrib.auth.backends.ModelBackend")
        path = reverse(f"console:{name}", args=args)

        def ask() -> None:
            # The longest period, which sums up most.
            response = client.get(path, {"period": "30d"})
            assert response.status_code == 200, (path, response.status_code)

        return ask

    pages = {name: build(person, name, args) for name, args in names.items()}
    return pages | {name: build(operator, name, args) for name, args in operated.items()}


if __name__ == "__main__":
    print_measured(measure)
