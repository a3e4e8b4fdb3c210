"""What guardrails did to one request and its answer, and what those on trial would have done."""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple
from uuid import UUID

from accounts.models import Guardrail
from console.scope import Scope

BLOCKED: Final = "blocked"
_TRIAL: Final = "would be "


class GuardrailAction(NamedTuple):
    """What filters of one guardrail found. `guardrail_id` is there where the person may open it."""

    name: str
    action: str
    tone: str
    found: str
    matches: int
    guardrail_id: UUID | None

    @property
    def is_trial(self) -> bool:
        return self.action.startswith(_TRIAL)


def list_guardrail_actions(trace: Mapping[str, Any], scope: Scope) -> list[GuardrailAction]:
    """In the order of the trace, which names guardrails of the scope's account only."""
    steps = trace.get("guardrails", [])
    ids = {step["id"] for step in steps} - {None}
    rows = Guardrail.objects.filter(pk__in=ids, workspace__account=scope.account)
    by_id = {str(row.pk): row for row in rows.select_related("workspace")} if ids else {}
    return [_describe(step, by_id.get(step["id"] or ""), scope) for step in steps]


def _describe(step: Mapping[str, Any], row: Guardrail | None, scope: Scope) -> GuardrailAction:
    action = step["action"]
    tone = {BLOCKED: "bad", "redacted": "warn"}.get(action, "plain")
    if row is None:
        name = "A guardrail that is gone" if step["id"] else "The workspace's guardrail"
    else:
        name = name_guardrail(row)
    may_open = row is not None and scope.leads(row.workspace_id)
    pk = row.pk if row is not None and may_open else None
    return GuardrailAction(name, action, tone, ", ".join(step["detected"]), step["matches"], pk)


def name_guardrail(row: Guardrail) -> str:
    """Its name, or that of the default one of its workspace, which is loaded."""
    return f"Everything in {row.workspace.name}" if row.is_default else row.name
