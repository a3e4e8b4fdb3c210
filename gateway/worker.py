"""gunicorn's gevent worker, answering its own refusals in the API's JSON body."""

from typing import Any

from gunicorn.http import errors as http_errors
from gunicorn.workers.ggevent import GeventWorker

from gateway.http.jsonio import dumps

_REASONS = {
    400: "Bad Request",
    431: "Request Header Fields Too Large",
    500: "Internal Server Error",
}


def refusal(error: BaseException) -> tuple[int, str]:
    """Status and message for what gunicorn could not read as a request."""
    if isinstance(error, http_errors.LimitRequestHeaders):
        return 431, "Request header fields too large"
    if isinstance(error, http_errors.LimitRequestLine):
        return 400, "Request line too long"
    if isinstance(error, http_errors.ParseException):
        return 400, "Malformed HTTP request"
    return 500, "Internal Server Error"


def refusal_bytes(status: int, message: str) -> bytes:
    """A whole HTTP response that ends the connection."""
    error_type = "server" if status == 500 else "invalid_request"
    body = dumps(
        {"error": {"code": status, "message": message, "metadata": {"error_type": error_type}}}
    )
    head = (
        f"HTTP/1.1 {status} {_REASONS[status]}\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + body


class GatewayWorker(GeventWorker):
    """Errors below the application are JSON too, and requests end before the master's patience."""

    def init_process(self) -> None:
        # The master kills at its own graceful_timeout. Calls still running are ended before that,
        # so that each is settled and told, and the ledger's queue is empty when the process goes.
        self.cfg.set("graceful_timeout", max(1, self.cfg.graceful_timeout // 2))
        super().init_process()  # type: ignore[no-untyped-call]  # gunicorn is untyped.

    def handle_error(self, req: Any, client: Any, addr: Any, exc: BaseException) -> None:
        status, message = refusal(exc)
        if status == 500:
            self.log.exception("Error handling request")
        else:
            self.log.info("Refused a connection from %s: %s", addr, message)
        try:
            client.sendall(refusal_bytes(status, message))
        except OSError:
            self.log.debug("The peer was gone before the refusal")
