"""Guardrails of a view in words, whom they govern, and what they did to one request."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple
from uuid import UUID

from django.db.models import CharField, Q, QuerySet, Value
from django.http import Http404

from accounts.models import ApiKey, Guardrail, GuardrailKey, GuardrailMember, Membership, Workspace
from accounts.services.guardrails import find_default_workspace
from accounts.views.schemas.guardrail import BUILTIN_LABELS
from console.queries.workspaces import list_led_workspaces
from console.scope import Scope, widen_scope
from console.words import Badge, format_money
from gateway.http.jsonio import JsonObject

BUILTINS: Final = {
    "email": "E-mail addresses",
    "phone": "Phone numbers",
    "ssn": "Social security numbers",
    "credit-card": "Credit card numbers",
    "ip-address": "IP addresses",
    "person-name": "Names of people",
    "address": "Postal addresses",
    "regex-prompt-injection": "Prompt injection",
}
assert BUILTINS.keys() == BUILTIN_LABELS.keys()
BLOCKED: Final = "blocked"
_ASSIGNED_MAX: Final = 200


def name_guardrail(row: Guardrail) -> str:
    """Its name, or that of the default one of its workspace, which is loaded."""
    return f"Everything in {row.workspace.name}" if row.is_default else row.name


class GuardrailRow(NamedTuple):
    """A guardrail, whom it governs, and its rules in words. `is_there` is false for a workspace's
    default one before its first change."""

    guardrail: Guardrail
    governs: str
    is_there: bool = True

    @property
    def name(self) -> str:
        return name_guardrail(self.guardrail)

    @property
    def rules(self) -> str:
        return "; ".join(describe_rules(self.guardrail)) or "nothing yet"

    @property
    def blocks(self) -> Badge:
        """The strongest thing its filters do."""
        actions = {each["action"] for each in list_filters(self.guardrail)}
        for action, tone in (("block", "bad"), ("redact", "warn"), ("flag", "plain")):
            if action in actions:
                return Badge(
                    tone, {"block": "blocks", "redact": "redacts", "flag": "notes"}[action]
                )
        return Badge("plain", "no filter")


def list_filters(guardrail: Guardrail) -> list[JsonObject]:
    return [*(guardrail.content_filters or ()), *(guardrail.content_filter_builtins or ())]


def describe_rules(guardrail: Guardrail) -> Iterator[str]:
    """Each rule as a few words."""
    if guardrail.limit_nano is not None:
        yield f"{format_money(guardrail.limit_nano)} {guardrail.reset_interval} for each holder"
    lists = (
        ("only models", guardrail.allowed_models),
        ("no", guardrail.ignored_models),
        ("only providers", guardrail.allowed_providers),
        ("not at", guardrail.ignored_providers),
        ("only from", guardrail.allowed_data_regions),
    )
    yield from (f"{words} {', '.join(names)}" for words, names in lists if names)
    if any(getattr(guardrail, f"enforce_zdr_{group}") for group in _ZDR):
        yield "zero data retention"
    if any(getattr(guardrail, name) is False for name in _TRAINING):
        yield "no training on prompts"
    for each in guardrail.external_guards or ():
        asked = each.get("provider") or each["model"]
        trial = ", on trial" if each["shadow"] else ""
        yield f"{_VERBS[each['action']]} what {asked} finds unsafe{trial}"
    if guardrail.enforce_schema:
        yield "structured answers fit their schema"
    for each in guardrail.content_filter_builtins or ():
        yield f"{_VERBS[each['action']]} {BUILTINS[each['slug']].lower()}"
    for each in guardrail.content_filters or ():
        yield f"{_VERBS[each['action']]} {each.get('label') or each['pattern']}"
    place = "in answers, on trial" if guardrail.output_shadow else "in answers"
    for each in guardrail.output_filter_builtins or ():
        yield f"{_VERBS[each['action']]} {BUILTINS[each['slug']].lower()} {place}"
    for each in guardrail.output_filters or ():
        yield f"{_VERBS[each['action']]} {each.get('label') or each['pattern']} {place}"


_ZDR: Final = ("anthropic", "openai", "google", "xai", "other")
_TRAINING: Final = (
    *("enable_paid_model_training", "enable_free_model_training"),
    "enable_free_model_publication",
)
_VERBS: Final = {"block": "blocks", "redact": "redacts", "flag": "notes"}


def list_guardrails(scope: Scope) -> list[GuardrailRow]:
    """Those of the workspaces that the person leads; each workspace's default one first."""
    workspaces = list_led_workspaces(scope)
    rows = Guardrail.objects.filter(workspace__in=workspaces).select_related("workspace")
    found = list(rows.order_by("name", "pk"))
    governed = _count_governed(found)
    defaults = {row.workspace_id: row for row in found if row.is_default}
    listed = [
        GuardrailRow(
            defaults.get(each.pk) or _build_default(each), "all its requests", each.pk in defaults
        )
        for each in workspaces
    ]
    others = (row for row in found if not row.is_default)
    return [*listed, *(GuardrailRow(row, governed[row.pk]) for row in others)]


def _build_default(workspace: Workspace) -> Guardrail:
    return Guardrail(pk=workspace.default_guardrail_id, workspace=workspace, is_default=True)


def _count_governed(rows: Iterable[Guardrail]) -> Mapping[UUID, str]:
    ids = [row.pk for row in rows]
    keys = _list_assigned(GuardrailKey, "key", ids)
    found = Counter(keys.union(_list_assigned(GuardrailMember, "member", ids), all=True))
    texts = {}
    for pk in ids:
        counts = [(found[pk, word], word) for word in ("key", "member")]
        words = [f"{n} {word}{'s' if n > 1 else ''}" for n, word in counts if n]
        texts[pk] = " and ".join(words) or "nobody yet"
    return texts


def _list_assigned(model: Any, word: str, ids: list[UUID]) -> QuerySet[Any]:
    """A guardrail's id and the word for each that it governs."""
    what = Value(word, CharField())
    return model.objects.filter(guardrail__in=ids).order_by().values_list("guardrail", what)  # type: ignore[no-any-return]  # Of either model.


def find_guardrail(scope: Scope, guardrail_id: UUID) -> tuple[GuardrailRow, Scope]:
    """The guardrail with the person's widest scope. Raises `Http404` where they do not lead its
    workspace."""
    row = Guardrail.objects.filter(pk=guardrail_id).select_related("workspace").first()
    if row is None:
        workspace = find_default_workspace(scope.account.pk, guardrail_id)
        if workspace is None or not scope.leads(workspace.pk):
            raise Http404
        return GuardrailRow(_build_default(workspace), "all its requests", False), scope
    own = widen_scope(scope, row.workspace.account_id)
    if not own.leads(row.workspace_id):
        raise Http404
    governs = "all its requests" if row.is_default else _count_governed([row])[row.pk]
    return GuardrailRow(row, governs), own


def may_change_guardrail(guardrail: Guardrail, scope: Scope) -> bool:
    """Whether all that it governs is the person's to lead."""
    led = list_led_workspaces(scope)
    return not _list_others_guardrails(scope, led).filter(pk=guardrail.pk).exists()


def _list_others_guardrails(scope: Scope, led: Sequence[Workspace]) -> QuerySet[Guardrail]:
    """Those of the account that govern more than these workspaces: what stands elsewhere, holds
    members, who have keys anywhere, or holds keys of elsewhere. People who rule the account have
    none."""
    if scope.rules_account:
        return Guardrail.objects.none()
    keys = GuardrailKey.objects.filter(api_key__deleted_at__isnull=True)
    return Guardrail.objects.filter(
        ~Q(workspace__in=led)
        | Q(pk__in=GuardrailMember.objects.values("guardrail"))
        | Q(pk__in=keys.exclude(api_key__workspace__in=led).values("guardrail")),
        workspace__account=scope.account,
    )


class Assignments(NamedTuple):
    """Whom a guardrail governs, and whom it could, by name. `is_cut` says that there are more of
    either kind than are here."""

    keys: list[ApiKey]
    members: list[Membership]
    other_keys: list[ApiKey]
    other_members: list[Membership]
    is_cut: bool


class Assignable(NamedTuple):
    """Keys and members that the person may put under a guardrail, or let go from it."""

    keys: QuerySet[ApiKey]
    members: QuerySet[Membership]


def find_assignable(guardrail: Guardrail, scope: Scope) -> Assignable:
    """Keys of workspaces that the person leads, and members for who rules the account. A key that
    others put under a guardrail of theirs stays there."""
    led = list_led_workspaces(scope)
    keys = ApiKey.objects.living().filter(kind=ApiKey.Kind.INFERENCE, workspace__in=led)
    if not scope.rules_account:
        others = _list_others_guardrails(scope, led).exclude(pk=guardrail.pk)
        keys = keys.exclude(guardrail_assignment__guardrail__in=others)
    people = Membership.objects.filter(account=scope.account)
    return Assignable(keys, people if scope.rules_account else people.none())


def list_assignments(guardrail: Guardrail, scope: Scope, text: str = "") -> Assignments:
    """Those whose name contains the text. People who do not rule the account also see the members
    that it governs."""
    keys = find_assignable(guardrail, scope).keys.filter(name__icontains=text)
    people = Membership.objects.filter(account=scope.account, user__username__icontains=text)
    own_keys, other_keys = _split_assigned(keys.only("name", "hash"), guardrail, "name")
    own, other = _split_assigned(
        people.select_related("user"), guardrail, "user__username", others=scope.rules_account
    )
    return Assignments(
        keys=own_keys[:_ASSIGNED_MAX],
        members=own[:_ASSIGNED_MAX],
        other_keys=other_keys[:_ASSIGNED_MAX],
        other_members=other[:_ASSIGNED_MAX],
        is_cut=any(len(rows) > _ASSIGNED_MAX for rows in (own_keys, own, other_keys, other)),
    )


def _split_assigned(
    rows: QuerySet[Any], guardrail: Guardrail, name: str, *, others: bool = True
) -> tuple[list[Any], list[Any]]:
    """Those that the guardrail governs, and the others where they are wanted, by name; one more of
    each than is shown."""
    is_own = Q(guardrail_assignment__guardrail=guardrail)
    own = rows.filter(is_own).order_by(name, "pk")[: _ASSIGNED_MAX + 1]
    other = rows.exclude(is_own).order_by(name, "pk")[: _ASSIGNED_MAX + 1]
    return list(own), list(other) if others else []


# --- What they did to a request -------------------------------------------------------------------


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
        """Whether the guardrail is on trial, and only says what it would have done."""
        return self.action.startswith("would be ")


def list_guardrail_actions(trace: Mapping[str, Any], scope: Scope) -> list[GuardrailAction]:
    """In the order of the trace, which names guardrails of the scope's account only."""
    steps = trace.get("guardrails", [])
    ids = {step["id"] for step in steps} - {None}
    rows = Guardrail.objects.filter(pk__in=ids, workspace__account=scope.account)
    by_id = {str(row.pk): row for row in rows.select_related("workspace")} if ids else {}
    actions = []
    for step in steps:
        action, row = step["action"], by_id.get(step["id"] or "")
        tone = {BLOCKED: "bad", "redacted": "warn"}.get(action, "plain")
        if row is None:
            name = "A guardrail that is gone" if step["id"] else "The workspace's guardrail"
        else:
            name = name_guardrail(row)
        pk = row.pk if row is not None and scope.leads(row.workspace_id) else None
        found = ", ".join(step["detected"])
        actions.append(GuardrailAction(name, action, tone, found, step["matches"], pk))
    return actions
