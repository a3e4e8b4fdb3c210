"""Batches of traces on their way into the workers' queues, which are bounded.

Each workspace has two of the queues, by its id, and uses the one in which less waits. The worker
takes from all of them in turn. So whoever sends more than is delivered fills his own two, and of
the others hardly anybody has both in common with him.
"""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from typing import Any, Final, Literal, NamedTuple, cast
from uuid import UUID

from django.conf import settings

from gateway.metrics.families import Counter
from routing.destinations.facts import TraceFacts, pack_batch

TASK: Final = "routing.tasks.deliver_traces"
# A worker that is behind may not fill the memory of the broker, which interns need too.
MESSAGES_PER_QUEUE_MAX: Final = 25
TRACES_MAX: Final = 50
CHARS_MAX: Final = 262_144
_BROKER_S: Final = 2.0
LossReason = Literal["crowd", "database", "broker", "queue_full", "sealed", "receiver"]
LOST_TRACES: Final = Counter(
    "gateway_destination_traces_lost_total",
    "Traces that destinations did not get, by reason. `crowd`: too many came at once. "
    "`database`, `broker`: these were gone. `queue_full`: workers are behind. "
    "`sealed`: the master key is another. `receiver`: three tries failed.",
    "reason",
)


class Message(NamedTuple):
    """One delivery: some traces for a destination of a workspace, sealed."""

    workspace_id: UUID
    destination_id: str
    batch: str
    traces: int


def find_queues(workspace_id: UUID) -> tuple[str, str]:
    """The two queues of a workspace."""
    queues: tuple[str, ...] = settings.DESTINATION_QUEUES
    digest = hashlib.sha256(workspace_id.bytes).digest()
    first, step = digest[0] % len(queues), 1 + digest[1] % (len(queues) - 1)
    return queues[first], queues[(first + step) % len(queues)]


def build_messages(
    workspace_id: UUID, destination_id: str, traces: Sequence[TraceFacts]
) -> Iterator[Message]:
    for part in split_traces(traces):
        batch = pack_batch(part, destination_id)
        yield Message(workspace_id, destination_id, batch, len(part))


def split_traces(traces: Sequence[TraceFacts]) -> Iterator[Sequence[TraceFacts]]:
    """Parts of at most `TRACES_MAX` traces and about `CHARS_MAX` characters of content."""
    part: list[TraceFacts] = []
    chars = 0
    for trace in traces:
        size = len(str(trace.input or "")) + len(str(trace.output or ""))
        if part and (len(part) >= TRACES_MAX or chars + size > CHARS_MAX):
            yield part
            part, chars = [], 0
        part.append(trace)
        chars += size
    if part:
        yield part


def publish_messages(messages: Sequence[Message]) -> list[Message]:
    """Put them into their queues; returns those that found no room. Raises what the broker's client
    raises."""
    # Importing it names the settings for every process that this one starts.
    from gateway.celery import app

    timeouts = {"socket_timeout": _BROKER_S, "socket_connect_timeout": _BROKER_S}
    options = timeouts if settings.REDIS_URL else {}
    with app.connection_for_write(transport_options=options) as connection:
        wanted = {name for message in messages for name in find_queues(message.workspace_id)}
        # The types of kombu know the channel by its least.
        with closing(cast(Any, connection.channel())) as channel:
            waiting = {name: channel.queue_declare(queue=name).message_count for name in wanted}
        left = []
        for message in messages:
            queue = min(find_queues(message.workspace_id), key=waiting.__getitem__)
            if waiting[queue] >= MESSAGES_PER_QUEUE_MAX:
                left.append(message)
                continue
            waiting[queue] += 1
            app.send_task(
                TASK,
                (message.destination_id, message.batch, 1, message.traces),
                connection=connection,
                queue=queue,
                retry=False,
            )
    return left


Publish = Callable[[Sequence[Message]], list[Message]]
