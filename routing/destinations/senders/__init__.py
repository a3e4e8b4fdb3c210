"""One sender per type of destination: from a config and traces to HTTP requests.

Another type is one more line here.
"""

from collections.abc import Mapping
from typing import Any, Final

from routing.destinations.senders.datadog import DATADOG
from routing.destinations.senders.interface import Sender
from routing.destinations.senders.otlp import OTLP_SENDERS
from routing.destinations.senders.posthog import POSTHOG
from routing.destinations.senders.s3 import S3

SENDERS: Final[Mapping[str, Sender[Any]]] = {
    **OTLP_SENDERS,
    "datadog": DATADOG,
    "posthog": POSTHOG,
    "s3": S3,
}
