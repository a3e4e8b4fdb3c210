"""Key look-ups, remembered for less than a second per process, so that a key revoked is gone within
the stated second. Unknown hashes are remembered too."""

from accounts.caller import Caller
from gateway.ttl_cache import TtlCache


class KeyCache(TtlCache[str, Caller]):
    """`find(hash)` gives the caller or None."""
