"""Batches of traces on their way into the workers' queue, which is bounded."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from typing import Any, Final, NamedTuple, cast

from django.conf import settings

from routing.destinations.facts import TraceFacts, pack_batch

QUEUE: Final = "destinations"
TASK: Final = "routing.tasks.deliver_traces"
# A worker that is behind may not fill the memory of the broker, which interns need too.
MESSAGES_MAX: Final = 200
TRACES_MAX: Final = 50
CHARS_MAX: Final = 262_144
_BROKER_S: Final = 2.0


class Message(NamedTuple):
    """One delivery: so many traces for a destination, sealed."""

    destination_id: str
    batch: str
    traces: int


def build_messages(destination_id: str, traces: Sequence[TraceFacts]) -> Iterator[Message]:
    for part in split_traces(traces):
        yield Message(destination_id, pack_batch(part, destination_id), len(part))


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


def publish_messages(messages: Sequence[Message]) -> int:
    """Put them into the queue; how many found room. Raises what the broker's client raises."""
    # Importing it names the settings for every process that this one starts.
    from gateway.celery import app

    timeouts = {"socket_timeout": _BROKER_S, "socket_connect_timeout": _BROKER_S}
    options = timeouts if settings.REDIS_URL else {}
    with app.connection_for_write(transport_options=options) as connection:
        # The types of kombu know the channel by its least.
        with closing(cast(Any, connection.channel())) as channel:
            waiting: int = channel.queue_declare(queue=QUEUE).message_count
        room = max(0, MESSAGES_MAX - waiting)
        for message in messages[:room]:
            app.send_task(
                TASK,
                (message.destination_id, message.batch, 1, message.traces),
                connection=connection,
                queue=QUEUE,
                retry=False,
            )
    return min(room, len(messages))


Publish = Callable[[Sequence[Message]], int]
