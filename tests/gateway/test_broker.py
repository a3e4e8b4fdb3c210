"""A broker that dies under a consumer."""

from pathlib import Path
from typing import Any

from kombu import Connection, Consumer, Exchange, Queue

from tests.support.valkey import ValkeyServer


def test_a_connection_to_a_dead_broker_is_closed(tmp_path: Path) -> None:
    """As Celery does it, with its control channel: one message is worked on and the next one is
    waited for."""
    from gateway.celery import app

    broker = ValkeyServer(tmp_path / "v")
    broker.start()
    connection: Connection = app.connection_for_read(
        broker.url.replace("unix://", "redis+socket://")
    )
    queue = Queue("jobs", channel=connection.default_channel)
    queue.declare()
    consumer = Consumer(connection.default_channel, [queue], callbacks=[lambda *_: None])
    consumer.qos(prefetch_count=2)
    consumer.consume()
    connection.Producer().publish({}, routing_key="jobs")
    connection.drain_events(timeout=5)
    orders = Queue("orders", exchange=Exchange("orders", type="fanout"), auto_delete=True)
    Consumer(connection.channel(), [orders], no_ack=True).consume()
    transport: Any = connection.transport
    transport.cycle.on_poll_start()
    broker.stop()

    connection.collect()
    connection.close()

    assert not connection.connected
