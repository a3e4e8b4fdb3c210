"""A psycopg connection that waits on gevent's event loop directly.

psycopg notices gevent and waits through a patched `select.poll`, which builds a poll object and two
watchers for every wait; one watcher kept per direction halves the CPU of a statement.
"""

from typing import Any

import psycopg


class CooperativeConnection(psycopg.Connection[Any]):
    """For one greenlet at a time, on the hub it was opened on."""

    _watchers: dict[int, Any]

    def wait(self, gen: Any, interval: float = 0.0, timeout: float | None = None) -> Any:
        """Run a psycopg generator, switching to other greenlets while its socket is not ready."""
        if timeout is not None:
            return super().wait(gen, interval, timeout)
        try:
            wanted = next(gen)
            while True:
                self._until_ready(int(wanted))
                # Being told of a side that is not ready costs it one call that finds nothing.
                wanted = gen.send(int(wanted))
        except StopIteration as ended:
            return ended.value

    def _until_ready(self, events: int) -> None:
        from gevent import get_hub

        hub = get_hub()
        try:
            descriptor = self.pgconn.socket
        except psycopg.OperationalError:
            # libpq has closed it, and a watcher would wait for whoever gets its number next. The
            # generator, sent on, meets the error by itself.
            return
        watchers = self.__dict__.setdefault("_watchers", {})
        watcher = watchers.get(events)
        if watcher is None:
            watcher = watchers[events] = hub.loop.io(descriptor, events)
        hub.wait(watcher)

    def close(self) -> None:
        for watcher in self.__dict__.pop("_watchers", {}).values():
            watcher.close()
        super().close()
