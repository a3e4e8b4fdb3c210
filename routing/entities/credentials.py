"""The gateway's own credentials for a provider that has several."""

import hashlib
from dataclasses import dataclass
from functools import lru_cache

from gateway.limits.rules import RateRule

_KEY_BYTES = 6


@dataclass(frozen=True, slots=True, eq=False)
class HouseCredential:
    """One credential of a pool. `weight` is its share of the requests relative to the others';
    `rate_rules` limit all requests that are sent with it. `seal_mark` tells its content from what
    the row held before, without telling it."""

    pk: int
    provider: str
    label: str
    secret: str
    seal_mark: str
    weight: int = 1
    rate_rules: tuple[RateRule, ...] = ()

    def __repr__(self) -> str:
        # The generated one would print the secret into logs and tracebacks.
        return f"<HouseCredential {self.provider}/{self.label}>"

    def parking_key(self, endpoint: int = 0) -> int:
        """The number under which it is parked: at one endpoint, or (0) everywhere. A rotated
        credential has others."""
        return _hash_parking(self.pk, self.seal_mark, endpoint)


@lru_cache(maxsize=4096)
def _hash_parking(pk: int, seal_mark: str, endpoint: int) -> int:
    text = f"{pk}|{endpoint}|{seal_mark}".encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=_KEY_BYTES).digest(), "big")
