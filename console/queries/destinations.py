"""Destinations and alert channels of a view, with how they do."""

from typing import Final, NamedTuple

from django.db.models import Q

from accounts.models import Channel, Delivery
from console.scope import Scope
from console.words import Badge
from routing.destinations.models import Destination

_ROWS: Final = 200
_DELIVERIES: Final = 20


def list_destinations(scope: Scope) -> list[Destination]:
    """Those of the workspaces that the person leads, by name."""
    rows = Destination.objects.filter(account=scope.account).select_related("workspace")
    if scope.view.workspace_ids is not None:
        rows = rows.filter(workspace_id__in=scope.view.workspace_ids)
    return [row for row in rows.order_by("name", "pk")[:_ROWS] if scope.leads(row.workspace_id)]


def list_channels(scope: Scope) -> list[Channel]:
    """The account's for those who rule it, else those of the workspaces that the person leads."""
    rows = Channel.objects.filter(account=scope.account).select_related("workspace")
    found = rows.order_by("name", "pk")[:_ROWS]
    return [row for row in found if may_change_channel(scope, row)]


def may_change_channel(scope: Scope, row: Channel) -> bool:
    if row.workspace_id is None:
        return scope.rules_account
    return scope.leads(row.workspace_id)


class DeliveryRow(NamedTuple):
    """What became of a message."""

    delivery: Delivery

    @property
    def state(self) -> Badge:
        tones = {"delivered": "good", "failed": "bad", "pending": "plain"}
        state = self.delivery.state
        return Badge(tones.get(state, "plain"), self.delivery.get_state_display().lower())


def list_deliveries(channels: list[Channel]) -> list[DeliveryRow]:
    """The latest messages of these channels."""
    rows = Delivery.objects.filter(Q(channel__in=channels)).select_related("event", "channel")
    return [DeliveryRow(row) for row in rows.order_by("-created_at", "pk")[:_DELIVERIES]]
