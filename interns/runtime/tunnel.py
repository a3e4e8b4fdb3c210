"""The way to a runtime of another machine: through a web process there, at `INTERN_HOST_URL`.

Both ends prove that they have the gateway's secret. The caller signs method, path, body, the
machine that it means and the time; the other end signs what the answer is to. The way itself is
kept from readers by TLS, or by a network of the machines' own. Somebody who reads along there can
repeat no request: each is answered once.
"""

import hashlib
import hmac
import re
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple
from urllib.parse import urlsplit

from django.conf import settings
from django.utils.crypto import salted_hmac

from gateway.shared_cache import cache_key, shared_cache

PREFIX: Final = "/api/internal/interns/"
REQUEST_HEADER: Final = "X-Intern-Tunnel"
ANSWER_HEADER: Final = "X-Intern-Tunnel-Proof"
# A reason of `ChatRefused`, where the other end has no answer.
REASON_HEADER: Final = "X-Intern-Tunnel-Reason"
_SALT: Final = "interns.tunnel"
Way = Literal["agent", "page", "log", "disk"]
_HEADER: Final = re.compile(
    r"(?P<text>(?P<made_at>[0-9]{1,12})\.[0-9a-f]{16}\.(?P<wait_s>[0-9]{1,6}))"
    r"\.(?P<signature>[0-9a-f]{64})"
)
# Clocks of machines differ by a few seconds; what was signed longer ago was overheard.
_VALID_S: Final = 30
# A clock that is ahead signs what holds from before its time until after it.
_KEPT_S: Final = 2 * _VALID_S + 2
_USED_MAX: Final = 20_000


@dataclass(frozen=True, slots=True)
class Tunnel:
    """Through the web processes at `url` to what they have of one intern. That is its `agent`,
    which gets the runtime's token there, its public `page`, its `log` and its `disk`."""

    url: str
    intern_id: str
    way: Way

    def write_path(self, path: str) -> str:
        """`path` of the runtime as a path of the web process."""
        return f"{PREFIX}{self.intern_id}/{self.way}{path}"

    @property
    def host(self) -> str:
        return read_host(urlsplit(self.url).netloc)


@dataclass(frozen=True, slots=True)
class SignedRequest:
    """What a signature is of. `wait_s` is how long the caller waits for the whole answer."""

    host: str
    method: str
    path: str
    body: bytes
    wait_s: int

    def sign(self, now_s: float) -> str:
        """The header's value: time, a random number, the wait, and the signature."""
        stated = f"{int(now_s)}.{secrets.token_hex(8)}.{self.wait_s}"
        return f"{stated}.{self.digest(stated, settings.SECRET_KEY)}"

    def digest(self, stated: str, secret: str) -> str:
        parts = (stated, self.host, self.method, self.path, hashlib.sha256(self.body).hexdigest())
        return _digest("request", "\n".join(parts), secret)


def read_host(netloc: str) -> str:
    """The name without its port, which proxies in between may leave out."""
    try:
        return urlsplit(f"//{netloc}").hostname or ""
    except ValueError:
        return ""


class Stated(NamedTuple):
    """What a header states, before anybody has looked at its signature."""

    text: str
    wait_s: int
    signature: str


def read_header(header: str, now_s: float) -> Stated | None:
    """None where it is none, or not of a moment ago."""
    found = _HEADER.fullmatch(header)
    if found is None or abs(now_s - int(found["made_at"])) > _VALID_S:
        return None
    return Stated(found["text"], int(found["wait_s"]), found["signature"])


def find_secret(request: SignedRequest, stated: Stated) -> str | None:
    """The secret, ours or a former one, of which the header is a signature of this request."""
    for secret in [settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS]:
        if hmac.compare_digest(stated.signature, request.digest(stated.text, secret)):
            return secret
    return None


def sign_answer(header: str, secret: str) -> str:
    """What proves, to who signed that header by the secret, that the answer is of who has it."""
    return _digest("answer", header, secret)


def is_proof(proof: str, header: str) -> bool:
    """Whether an answer's proof is of who has the secret by which we signed that header."""
    wanted = sign_answer(header, settings.SECRET_KEY)
    return hmac.compare_digest(proof.encode(), wanted.encode())


def _digest(kind: str, text: str, secret: str) -> str:
    made = salted_hmac(f"{_SALT}.{kind}", text, secret=secret, algorithm="sha256")
    return made.hexdigest()


class UsedSignatures:
    """Which requests were answered already: by all web processes together where they have a hint
    store that answers, else by this one. Nothing is kept for longer than it could be repeated."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        # By the time at which they are refused as too old anyhow, the oldest first.
        self._until: dict[str, float] = {}

    def use(self, signature: str) -> bool:
        """False where it was used before."""
        now = self._clock()
        while self._until and (first := next(iter(self._until))):
            if self._until[first] > now and len(self._until) < _USED_MAX:
                break
            del self._until[first]
        if signature in self._until:
            return False
        self._until[signature] = now + _KEPT_S
        key = f"{cache_key('tunnel')}:{signature}"
        return shared_cache().run(
            lambda store: bool(store.set(key, b"", nx=True, ex=_KEPT_S)), default=True
        )


USED: Final = UsedSignatures()
