"""One delivery to a destination: what is sent of a batch, the requests, and what became of them."""

import logging
import time
from collections.abc import Sequence
from typing import Final, NamedTuple
from uuid import UUID

from django.conf import settings
from django.db.models import F

from accounts.services.records import command_actor
from gateway.database.db import release_connection
from gateway.http.errors import SchemaInvalid
from gateway.outbound.doors import door_for
from gateway.outbound.errors import OutboundError
from gateway.outbound.http_client import Limits
from gateway.outbound.targets import TargetRefused, split_url, target_of
from gateway.sealing import UnsealError
from routing.destinations.config import check_config
from routing.destinations.facts import MetadataGroups, TraceFacts, pack_batch, unpack_batch
from routing.destinations.filters import passes_filter
from routing.destinations.models import Destination
from routing.destinations.queueing import LOST_TRACES, LossReason, find_queues
from routing.destinations.senders.interface import OutgoingRequest
from routing.destinations.services import find_sender, load_config, switch_off

log = logging.getLogger("routing.destinations")

# Seconds before each further attempt. The first is made within a second of the answer.
RETRY_DELAYS_S: Final = (10, 60)
DROPS_MAX: Final = 100
_CONNECT_S: Final = 5.0
# Nobody reads what receivers answer; so much keeps their connection usable.
_ANSWER_BYTES_MAX: Final = 262_144
_BAD_REQUEST: Final = 400


class DeliveryFailed(Exception):
    """The text says why, without the config and what was sent."""


class Retry(NamedTuple):
    """What failed of a batch, in how many seconds to send it again, and the queue for it."""

    batch: str
    size: int
    delay_s: int
    queue: str


class ConnectionTest(NamedTuple):
    """`status` is the receiver's, None where no answer came."""

    passed: bool
    status: int | None
    message: str


def deliver(destination_id: UUID, batch: str, attempt: int, size: int = 1) -> Retry | None:
    """Send a batch of `size` traces for the first, second or third time. Returns None where all of
    it arrived, was dropped or nobody wants it any more."""
    row = Destination.objects.filter(
        pk=destination_id, enabled=True, workspace__is_observability_broadcast_enabled=True
    ).first()
    if row is None:
        return None
    try:
        traces = [
            each
            for each in unpack_batch(batch, str(destination_id))
            if passes_filter(row.filter_rules, each.filter_values())
        ]
    except UnsealError:
        # It was sealed under a master key that is gone.
        note_loss(row.pk, size, "sealed", "a batch does not open any more")
        return None
    if not traces:
        return None
    failed, text = send_traces(row, traces)
    if arrived := len(traces) - len(failed):
        Destination.objects.filter(pk=row.pk).update(
            delivered=F("delivered") + arrived, drops_in_row=0, last_error=""
        )
    if not failed:
        return None
    if attempt <= len(RETRY_DELAYS_S):
        again = pack_batch(failed, str(destination_id)) if arrived else batch
        queue = find_queues(row.workspace_id)[0]
        return Retry(again, len(failed), RETRY_DELAYS_S[attempt - 1], queue)
    LOST_TRACES.add(len(failed), "receiver")
    Destination.objects.filter(pk=row.pk).update(
        dropped=F("dropped") + len(failed),
        drops_in_row=F("drops_in_row") + len(failed),
        last_error=text[:200],
    )
    log.warning("Destination %s: %d traces dropped: %s", row.pk, len(failed), text)
    if switch_off(row, drops_max=DROPS_MAX, by=command_actor("deliver_traces")):
        log.warning("Destination %s is switched off: %d drops in a row", row.pk, DROPS_MAX)
    return None


def note_loss(destination_id: UUID, count: int, reason: LossReason, text: str) -> None:
    """Count traces that are lost through no fault of the receiver's: nothing is switched off."""
    LOST_TRACES.add(count, reason)
    Destination.objects.filter(pk=destination_id).update(
        dropped=F("dropped") + count, last_error=text[:200]
    )
    log.warning("Destination %s: %d traces dropped: %s", destination_id, count, text)


def send_traces(row: Destination, traces: Sequence[TraceFacts]) -> tuple[list[TraceFacts], str]:
    """Send them to the destination as it is configured now, without content in privacy mode.
    Returns those that did not arrive, and why the last of them did not."""
    sender = find_sender(row.type)
    groups = MetadataGroups(
        row.broadcast_generation_cost,
        row.broadcast_generation_cost_allocation,
        row.broadcast_generation_identity,
        row.broadcast_generation_request_context,
    )
    shown = [each.without_content() for each in traces] if row.privacy_mode else traces
    size = 1 if sender.is_trace_alone else len(traces)
    failed: list[TraceFacts] = []
    text = ""
    for start in range(0, len(traces), size):
        try:
            request = sender.build(_read_config(row), shown[start : start + size], groups)
            status = send_request(request)
        except DeliveryFailed as error:
            # A receiver that does not answer is not asked for each of the others.
            return [*failed, *traces[start:]], str(error)
        if not 200 <= status < 300:
            failed += traces[start : start + size]
            text = f"the receiver answered {status}"
    return failed, text


def try_connection(row: Destination) -> ConnectionTest:
    """Send a request without traces."""
    try:
        request = find_sender(row.type).build_test(_read_config(row))
        release_connection()
        status = send_request(request)
    except DeliveryFailed as error:
        return ConnectionTest(False, None, str(error))
    passed = 200 <= status < 300 or status == _BAD_REQUEST
    return ConnectionTest(passed, status, f"the receiver answered {status}")


def send_request(request: OutgoingRequest) -> int:
    """The status of the answer. Redirects are not followed: they would carry secrets to where
    nobody sent them. Raises `DeliveryFailed`."""
    try:
        target = target_of(*split_url(request.url))
        door = door_for(target.host, private=settings.DESTINATION_PRIVATE_HOSTS)
        reply = door.send(
            target.origin,
            method=request.method,
            path=target.path,
            headers=request.headers,
            body=request.body,
            limits=Limits(
                connect_s=min(_CONNECT_S, settings.DESTINATION_TIMEOUT),
                first_byte_s=settings.DESTINATION_TIMEOUT,
                idle_s=settings.DESTINATION_TIMEOUT,
                body_bytes_max=_ANSWER_BYTES_MAX,
            ),
            deadline=time.monotonic() + settings.DESTINATION_TIMEOUT,
        )
    except TargetRefused as error:
        raise DeliveryFailed(str(error)) from None
    except OutboundError as error:
        raise DeliveryFailed(f"no answer: {error}") from None
    except ValueError:
        # The text of the error may quote a header.
        raise DeliveryFailed("the request cannot be sent") from None
    try:
        reply.read_all()
    except OutboundError as error:
        # What it thinks of the request stood in the head.
        log.debug("A receiver's answer did not end: %s", error)
    finally:
        reply.close()
    return reply.status


def _read_config(row: Destination) -> object:
    try:
        config = load_config(row)
    except UnsealError:
        raise DeliveryFailed("the config does not open under this master key") from None
    try:
        return check_config(find_sender(row.type).config, config)
    except SchemaInvalid as error:
        # Which hosts are private, for one, is the operator's to change.
        raise DeliveryFailed(f"the config is not allowed any more: {error.text}") from None
