"""The way to a runtime of another machine: through a web process there, at `INTERN_HOST_URL`.

Both ends prove that they have the gateway's secret. The caller signs method, path, body, the
machine that it means and the time; the other end signs what the answer is to. The way itself is
kept from readers by TLS, or by a network of the machines' own: who reads along there can repeat a
request for half a minute.
"""

import hashlib
import hmac
import re
import secrets
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple
from urllib.parse import urlsplit

from django.utils.crypto import salted_hmac

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


@dataclass(frozen=True, slots=True)
class Tunnel:
    """Through the web processes at `url` to what they have of one intern: its `agent`, which is
    told the runtime's token there, its public `page`, its `log` and its `disk`."""

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
        return f"{stated}.{self._digest(stated)}"

    def _digest(self, stated: str) -> str:
        parts = (stated, self.host, self.method, self.path, hashlib.sha256(self.body).hexdigest())
        return _digest("request", "\n".join(parts))


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


def is_signed(request: SignedRequest, stated: Stated) -> bool:
    """Whether the header is of this request, and of who has the secret."""
    return hmac.compare_digest(stated.signature, request._digest(stated.text))


def sign_answer(header: str) -> str:
    """What proves, to who sent that header, that its answer is of who has the secret."""
    return _digest("answer", header)


def _digest(kind: str, text: str) -> str:
    return salted_hmac(f"{_SALT}.{kind}", text, algorithm="sha256").hexdigest()
