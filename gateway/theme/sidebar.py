"""The admin's sidebar by task. Models are named by string; those under no task are under System."""

from typing import Final

from django.apps import apps
from django.contrib import admin
from django.http import HttpRequest
from django.urls import reverse

from gateway.http.jsonio import JsonObject

# Each with an icon of the theme.
TASKS: Final[dict[str, dict[str, str]]] = {
    "Spend": {
        "accounts.account": "account_balance_wallet",
        "accounts.ledgerentry": "receipt_long",
        "accounts.workspacebudget": "savings",
        "routing.credentialspend": "payments",
    },
    "Requests": {
        "routing.generation": "list_alt",
        "routing.failedrequest": "block",
        "routing.generationfeedback": "thumbs_up_down",
        "routing.destination": "outbound",
    },
    "Keys and people": {
        "accounts.apikey": "key",
        "accounts.user": "person",
        "accounts.membership": "group",
        "accounts.workspace": "workspaces",
        "accounts.workspacemembership": "group_work",
        "accounts.app": "apps",
        "accounts.scimgroupmapping": "account_tree",
    },
    "Models and providers": {
        "routing.provider": "dns",
        "routing.providercredential": "key_vertical",
        "routing.model": "view_in_ar",
        "routing.endpoint": "hub",
        "routing.modelalias": "alternate_email",
        "routing.preset": "tune",
        "accounts.byokcredential": "vpn_key",
    },
    "Guardrails": {
        "accounts.guardrail": "shield",
        "accounts.guardrailkey": "shield_lock",
        "accounts.guardrailmember": "shield_person",
    },
    "Interns": {
        "interns.intern": "smart_toy",
        "interns.chatsession": "forum",
        "interns.vault": "lock",
    },
}
# Of the tables inside, those that an operator opens most stand first.
SYSTEM: Final = ("accounts.auditrecord", "accounts.channel", "accounts.event", "accounts.delivery")
_SYSTEM_ICONS: Final = {
    "accounts.auditrecord": "history",
    "accounts.channel": "campaign",
    "accounts.event": "notifications",
    "accounts.delivery": "send",
}
_TABLE: Final = "table_rows"


def list_sections(request: HttpRequest) -> list[JsonObject]:
    """The sections as the theme takes them: what this person may look at."""
    named = [label for models in TASKS.values() for label in models]
    rest = sorted(
        model._meta.label_lower
        for model in admin.site._registry
        if model._meta.label_lower not in (*named, *SYSTEM)
    )
    system = dict.fromkeys((*SYSTEM, *rest), _TABLE) | _SYSTEM_ICONS
    sections = [_build_section(request, title, models) for title, models in TASKS.items()]
    sections.append(_build_section(request, "System", system) | {"collapsible": True})
    return [section for section in sections if section["items"]]


def _build_section(request: HttpRequest, title: str, models: dict[str, str]) -> JsonObject:
    items = []
    for label, icon in models.items():
        model = apps.get_model(label)
        page = admin.site._registry.get(model)
        if page is not None and page.has_view_permission(request):
            name = str(model._meta.verbose_name_plural)
            link = reverse(f"admin:{label.replace('.', '_')}_changelist")
            items.append({"title": name[:1].upper() + name[1:], "icon": icon, "link": link})
    return {"title": title, "separator": True, "items": items}
