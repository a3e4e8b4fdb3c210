"""What records say of an error: no more than its caller was told."""

from typing import Final, NamedTuple

from gateway.http.errors import GatewayError
from gateway.http.jsonio import JsonObject

# Others, such as an upstream's raw error, may quote the prompt.
_DETAIL_FIELDS: Final[tuple[str, ...]] = (
    *("available_providers", "requested_providers", "failed_routing_step"),
    *("limit_source", "reason", "remedy_hint", "detected"),
    *("provider_name", "provider_code", "is_byok", "previous_errors"),
)


class ErrorFacts(NamedTuple):
    """Why a request failed. `reason` is a word of a small vocabulary, such as `key_limit`: which
    limit, budget or filter it was. `detail` is that part of `error.metadata` that cannot quote a
    prompt."""

    error_type: str
    reason: str
    text: str
    detail: JsonObject

    @property
    def is_unpaid(self) -> bool:
        """Whether the account's credits, its key's limit or a budget did not suffice."""
        return self.reason in ("credits", "key_limit") or self.reason.endswith("_budget")


def describe_error(error: GatewayError) -> ErrorFacts:
    """The facts of an error, in the words that its caller read."""
    metadata = error.metadata
    detail: JsonObject = {name: metadata[name] for name in _DETAIL_FIELDS if name in metadata}
    return ErrorFacts(error.error_type, error.record_reason, error.text, detail)
