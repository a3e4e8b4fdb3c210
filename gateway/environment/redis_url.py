"""REDIS_URL as a client and Celery want it: one server, or the primary that sentinels name."""

from typing import Any, Final, NamedTuple
from urllib.parse import parse_qsl, quote, unquote, urlsplit

SCHEME: Final = "redis+sentinel"
_PORT: Final = 26379


class SentinelUrl(NamedTuple):
    """`redis+sentinel://user:password@host:port,host:port/database?service=NAME`. User and password
    are the servers'; the sentinels' own is `sentinel_password`."""

    sentinels: list[tuple[str, int]]
    service: str
    user: str
    password: str
    database: int
    sentinel_password: str


def read_sentinel_url(url: str) -> SentinelUrl | None:
    """None for a URL of one server. Raises `ValueError` in words for what is odd."""
    if not url.startswith(f"{SCHEME}://"):
        return None
    parts = urlsplit(url)
    account, _, hosts = parts.netloc.rpartition("@")
    user, _, password = account.partition(":")
    query = dict(parse_qsl(parts.query, keep_blank_values=True))
    service, own = query.pop("service", ""), query.pop("sentinel_password", "")
    if not service:
        raise ValueError("names no service: ?service=NAME, as the sentinels call it")
    if query:
        raise ValueError(f"knows no {', '.join(sorted(query))}")
    database = parts.path.strip("/") or "0"
    if not database.isdecimal():
        raise ValueError("its database is no number")
    sentinels = [_read_host(each) for each in hosts.split(",")]
    return SentinelUrl(sentinels, service, unquote(user), unquote(password), int(database), own)


def _read_host(text: str) -> tuple[str, int]:
    try:
        found = urlsplit(f"//{text}")
        host, port = found.hostname, found.port
    except ValueError:
        host, port = None, None
    if not host:
        raise ValueError("its host or its port is odd")
    return host, port or _PORT


def build_broker(url: str) -> tuple[str, dict[str, Any]]:
    """Celery's URL, and what its transport has to know besides."""
    found = read_sentinel_url(url)
    if found is None:
        return url.replace("unix://", "redis+socket://", 1), {}
    account = ""
    if found.password:
        account = f"{quote(found.user, safe='')}:{quote(found.password, safe='')}@"
    urls = [
        f"sentinel://{account}{f'[{host}]' if ':' in host else host}:{port}/{found.database}"
        for host, port in found.sentinels
    ]
    own: dict[str, Any] = {"socket_timeout": 2, "socket_connect_timeout": 2}
    if found.sentinel_password:
        own["password"] = found.sentinel_password
    return ";".join(urls), {"master_name": found.service, "sentinel_kwargs": own}
