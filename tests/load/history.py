"""How fast history is told with a million generations, in a process of its own.

`python -m tests.load.history ROWS ROUNDS` fills the database of DATABASE_URL, which must be
a new one on PostgreSQL. It sums it up as the schedule does, and asks through the API's own views.
It prints what each request took and the plans of the statements, as JSON.
"""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from tests.load.apart import print_measured

DAYS: Final = 30
RECORD: Final = "GET /generation"
PAGE: Final = "GET /activity of a day"
_WARM_ROUNDS: Final = 2
_PLAN_S: Final = 60.0
_PORTION: Final = 100_000
_HISTORY: Final = ("generation", "usagehour", "usageday", "usagebrief", "usagespread")
# Twenty keys of one account, some far busier than others, at eight models of three providers; most
# answers stop by themselves. A record is as wide as a real one: most of it is the trace.
_FILL: Final = """
INSERT INTO routing_generation (
  id, account_id, workspace_id, api_key_id, created_at, api_type, model, requested_model,
  provider_name, endpoint_tag, status, streamed, cancelled, lost, overrun, finish_reason,
  tokens_prompt, tokens_completion, tokens_reasoning, tokens_cached, charge_nano, hold_nano,
  upstream_cost_nano, is_byok, latency_ms, generation_time_ms, session_id, external_user,
  attempts, detail, trace)
SELECT
  'gen-' || (1767225600 + n) || '-' || substr(md5(n::text), 1, 20),
  %(account)s, %(workspace)s, (%(keys)s::bigint[])[1 + floor(20 * a * a)::int],
  %(end)s - (1 - n::float / %(rows)s) * %(days)s * interval '1 day',
  'completions', 'author/model-' || floor(8 * b * b), 'author/model-' || floor(8 * b * b),
  (ARRAY['First', 'Second', 'Third'])[1 + floor(3 * c * c)::int],
  (ARRAY['first', 'second', 'third'])[1 + floor(3 * c * c)::int],
  CASE WHEN d < 0.01 THEN 502 ELSE 200 END, d > 0.5, false, false, false,
  CASE WHEN d < 0.01 THEN NULL WHEN d < 0.06 THEN 'length' ELSE 'stop' END,
  floor(exp(5 + 4 * e)), floor(exp(3 + 4 * f)), 0, floor(exp(3 * e)),
  floor(exp(8 + 4 * e)), 100000000, floor(exp(8 + 4 * e)), false,
  floor(exp(4 + 4 * f)), floor(exp(6 + 4 * f)),
  's' || floor(50000 * a), CASE WHEN b < 0.3 THEN 'user-' || floor(2000 * c) END,
  jsonb_build_array(jsonb_build_object('status', 200, 'provider_name', 'First', 'endpoint_id',
    'first', 'model_permaslug', 'author/model', 'latency', 100, 'is_byok', false, 'id', 'x')),
  jsonb_build_object('format', 'chat', 'user_agent', 'bench/1.0', 'pricing', jsonb_build_object(
    'prompt', '0.000001', 'completion', '0.000002')) || CASE WHEN c < 0.5 THEN
    jsonb_build_object('app', 'https://app-' || floor(6 * a) || '.example', 'app_title', 'App',
      'origin', 'https://app.example', 'http_referer', 'https://app.example/') ELSE '{}' END,
  repeat(md5(n::text), 40)
FROM (SELECT n, random() a, random() b, random() c, random() d, random() e, random() f
      FROM generate_series(%(first)s::int, %(last)s::int) n) drawn
"""


@dataclass(frozen=True)
class Told:
    """Each request's milliseconds and the plans of what it asked, by its name."""

    rows: int
    taken_ms: dict[str, list[float]] = field(default_factory=dict)
    plans: dict[str, list[str]] = field(default_factory=dict)
    roll_up_s: float = 0.0


def queries(now: datetime) -> dict[str, dict[str, Any]]:
    """Analytics as a team would ask, over the whole of the time and less of it."""
    latencies = ["avg_latency", "p50_latency", "p90_latency", "p99_latency"]
    one_model = {"field": "model", "operator": "eq", "value": "author/model-7"}

    def query(metrics: Sequence[str], *dimensions: str, days: int = 0, **more: Any) -> Any:
        """Without `days` of the last week, as the API has it."""
        asked = {"metrics": metrics, **more} | ({"dimensions": dimensions} if dimensions else {})
        start, end = (now - timedelta(days=days)).isoformat(), now.isoformat()
        return asked | ({"time_range": {"start": start, "end": end}} if days else {})

    usage, counted = ["credits_usage"], ["request_count"]
    totals = ["request_count", "tokens_total", "total_usage"]
    throughputs = ["p50_throughput", "p99_throughput"]
    return {
        "totals": query(totals, days=DAYS),
        "days by model": query([*counted, *usage], "model", days=DAYS, granularity="day"),
        "hours": query(["tokens_total"], days=DAYS, granularity="hour"),
        "keys and apps": query(usage, "api_key_id", "app", days=DAYS),
        "finish reasons by provider": query(counted, "provider", "finish_reason", days=DAYS),
        "one key by day": query(
            [*counted, "cache_hit_rate"], days=DAYS, granularity="day", filters=[one_model]
        ),
        "latency of a week": query(latencies, granularity="day"),
        "latency by provider": query(latencies, "provider", days=DAYS),
        "throughput of a day by hour": query(throughputs, days=1, granularity="hour"),
        "end users of a week": query(usage, "external_user", limit=100),
        "minutes of a day": query(counted, days=1, granularity="minute"),
    }


def measure(rows: int, rounds: int) -> Told:
    """Fill, sum up, ask. Django must be set up."""
    from django.core.management import call_command
    from django.db import connection

    from routing.history.rollup import roll_up

    call_command("migrate", verbosity=0)
    now = datetime.now(UTC)
    key, owner = open_bench_account()
    fill_generations(owner, rows, now)
    began = time.monotonic()
    while roll_up(now):
        pass
    told = Told(rows, roll_up_s=time.monotonic() - began)
    with connection.cursor() as cursor:
        # What autovacuum does some minutes after rows were written.
        cursor.execute("VACUUM ANALYZE")
    asked = _requests(now, key, owner)
    for name, ask in asked.items():
        told.plans[name] = _plans(ask)
    for number in range(_WARM_ROUNDS + rounds):
        for name, ask in asked.items():
            asked_at = time.perf_counter()
            ask()
            if number >= _WARM_ROUNDS:
                took_ms = (time.perf_counter() - asked_at) * 1000
                told.taken_ms.setdefault(name, []).append(took_ms)
    return told


def fill_generations(owner: Mapping[str, Any], rows: int, now: datetime) -> None:
    """So many within the last 30 days, of what `open_bench_account` made."""
    from django.db import connection

    given = {**owner, "rows": rows, "days": DAYS, "end": now}
    with connection.cursor() as cursor:
        cursor.execute("SELECT setseed(0.7)")
        for first in range(1, rows + 1, _PORTION):
            portion = {"first": first, "last": min(rows, first + _PORTION - 1)}
            cursor.execute(_FILL, given | portion)


def open_bench_account() -> tuple[str, Mapping[str, Any]]:
    """A management key, and what the rows belong to."""
    from accounts.models import Membership
    from accounts.services.keys import create_key
    from accounts.services.organization import admit_member, open_account

    account = open_account(name="bench")
    workspace = account.workspaces.get()
    admin = admit_member(account=account, username="bench", role=Membership.Role.ADMIN)
    keys = [
        create_key(account=account, name=f"key {n}", workspace=workspace, creator=admin)[0].pk
        for n in range(20)
    ]
    _, management = create_key(account=account, name="m", workspace=None, creator=admin)
    return management, {"account": account.pk, "workspace": workspace.pk, "keys": keys}


def _requests(now: datetime, key: str, owner: Mapping[str, Any]) -> dict[str, Callable[[], None]]:
    """What is measured: each asks once, and must be answered."""
    from django.test import Client

    from routing.metering.models import Generation

    client = Client(headers={"Authorization": f"Bearer {key}"})
    middle = Generation.objects.filter(
        account_id=owner["account"], created_at__gte=now - timedelta(days=DAYS // 2)
    )
    chosen = middle.order_by("created_at").values_list("pk", flat=True)[0]

    def request(path: str, body: Mapping[str, Any] | None = None) -> Callable[[], None]:
        def ask() -> None:
            method, data = ("POST", json.dumps(body)) if body else ("GET", "")
            response = client.generic(method, f"/api/v1{path}", data, "application/json")
            assert response.status_code == 200, response.content

        return ask

    found = {
        RECORD: request(f"/generation?id={chosen}"),
        "GET /activity": request("/activity"),
        PAGE: request(f"/activity?date={(now - timedelta(days=9)).date()}"),
    }
    asked = queries(now).items()
    return found | {name: request("/analytics/query", body) for name, body in asked}


def _plans(ask: Callable[[], None]) -> list[str]:
    """Of each statement that reads generations or what they came to."""
    from django.db import connection
    from django.test.utils import CaptureQueriesContext

    from routing.history.analytics import deadline

    with CaptureQueriesContext(connection) as captured:
        ask()
    found = []
    for sql in (each["sql"] for each in captured):
        if sql.startswith(("SELECT", "WITH")) and any(
            f"routing_{table}" in sql for table in _HISTORY
        ):
            # As the views ask it.
            with deadline(_PLAN_S), connection.cursor() as cursor:
                # The statement has its values in it; `%` is nothing special without parameters.
                cursor.execute(f"EXPLAIN (ANALYZE, BUFFERS, COSTS OFF) {sql}")
                found.append("\n".join(row[0] for row in cursor.fetchall()))
    return found


if __name__ == "__main__":
    print_measured(measure)
