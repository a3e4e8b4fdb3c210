"""gunicorn's gevent worker: one connection after another through our own doors."""

from typing import Any

from django.conf import settings
from gevent import GreenletExit
from gunicorn import util

from gateway.http.refusals import describe_failure, write_failure
from gateway.server.connection import Connection
from gateway.server.rolling import RollingWorker


class GatewayWorker(RollingWorker):
    """Errors below the application are JSON too, and requests end before the master's patience."""

    def handle(self, listener: Any, client: Any, addr: Any) -> None:
        """Serve a connection to its end."""
        connection = Connection(
            self.cfg,
            client,
            addr,
            header_s=settings.ROUTER_HEADER_TIMEOUT,
            idle_s=self.cfg.keepalive,
            # Some settings are longer than the other, and one socket has one timeout.
            busy_s=max(settings.ROUTER_STALLED_READER_SECONDS, settings.ROUTER_BODY_TIMEOUT),
        )
        try:
            self._serve(connection, listener.getsockname(), client, addr)
        except GreenletExit:
            self.log.debug("The worker stopped while the connection was idle")
        except OSError as error:
            self.log.debug("The connection ended: %s", error)
        except Exception as error:  # noqa: BLE001 - Whatever it is, the caller gets a JSON answer.
            self.handle_error(None, client, addr, error)
            connection.linger()
        finally:
            util.close(client)

    def _serve(self, connection: Connection, name: Any, client: Any, addr: Any) -> None:
        while (request := connection.next_request()) is not None:
            request.proxy_protocol_info = {}
            if self.is_crowded:
                request.force_close()
            try:
                self.handle_request(name, request, client, addr)
            except StopIteration:
                connection.finish()
                return
            # Also in a worker that is leaving: the next answer tells the caller so.
            if not connection.finish():
                return

    def handle_error(self, req: Any, client: Any, addr: Any, exc: BaseException) -> None:
        status, message = describe_failure(exc)
        if status == 500:
            self.log.error("Error handling request", exc_info=exc)
        else:
            self.log.info("Refused a connection from %s: %s", addr, message)
        try:
            client.sendall(write_failure(status, message))
        except OSError:
            self.log.debug("The peer was gone before the refusal")
