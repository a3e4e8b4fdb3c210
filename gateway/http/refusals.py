"""What is answered below the application: always the API's JSON body, and then the end."""

from gunicorn.http import errors as http_errors

from gateway.http.jsonio import dumps

_REASONS = {
    400: "Bad Request",
    408: "Request Timeout",
    431: "Request Header Fields Too Large",
    500: "Internal Server Error",
    501: "Not Implemented",
}
_ERROR_TYPES = {408: "timeout", 500: "server"}


class HeadTooSlow(Exception):
    """A request head was begun and not finished in time."""


def describe_failure(error: BaseException) -> tuple[int, str]:
    """Status and message for what could not be read as a request."""
    if isinstance(error, HeadTooSlow):
        return 408, "The request head took too long"
    if isinstance(error, http_errors.LimitRequestHeaders):
        return 431, "Request header fields too large"
    if isinstance(error, http_errors.LimitRequestLine):
        return 400, "Request line too long"
    if isinstance(error, http_errors.UnsupportedTransferCoding):
        return 501, "The only transfer coding understood is chunked"
    if isinstance(error, http_errors.ParseException):
        return 400, "Malformed HTTP request"
    return 500, "Internal Server Error"


def write_failure(status: int, message: str) -> bytes:
    """A whole HTTP response that ends the connection."""
    error_type = _ERROR_TYPES.get(status, "invalid_request")
    body = dumps(
        {"error": {"code": status, "message": message, "metadata": {"error_type": error_type}}}
    )
    head = (
        f"HTTP/1.1 {status} {_REASONS[status]}\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + body
