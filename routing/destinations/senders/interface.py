"""What a sender is."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, Generic, NamedTuple, TypeVar

from gateway.http.jsonio import dumps
from routing.destinations.config import DestinationConfig
from routing.destinations.facts import MetadataGroups, TraceFacts

JSON: Final = ("Content-Type", "application/json")
# Connection tests have it.
TEST_HEADER: Final = ("X-Test-Connection", "true")
C = TypeVar("C", bound=DestinationConfig)


class OutgoingRequest(NamedTuple):
    """One HTTP request."""

    url: str
    headers: tuple[tuple[str, str], ...]
    body: bytes
    method: str = "POST"


class Sender(NamedTuple, Generic[C]):
    """How one type of destination is configured and sent to.

    `build` takes a checked config and at least one trace, `build_test` makes the request of a
    connection test. With `is_trace_alone` each trace is a request of its own, so that one may fail
    while another arrives; otherwise one request has them all.
    """

    config: type[C]
    build: Callable[[C, Sequence[TraceFacts], MetadataGroups], OutgoingRequest]
    build_test: Callable[[C], OutgoingRequest]
    is_trace_alone: bool = False


def json_request(
    url: str, body: object, headers: Mapping[str, str] | None = None, *, method: str = "POST"
) -> OutgoingRequest:
    return OutgoingRequest(url, (JSON, *(headers or {}).items()), dumps(body), method)
