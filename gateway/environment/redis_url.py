"""REDIS_URL as a client and Celery want it: one server, the primary that sentinels name, or a
cluster."""

from collections import deque
from typing import Any, Final, NamedTuple
from urllib.parse import SplitResult, parse_qsl, quote, unquote, urlencode, urlsplit

SCHEME: Final = "redis+sentinel"
CLUSTER_SCHEME: Final = "redis+cluster"
TLS_SCHEME: Final = "rediss+sentinel"
TLS_CLUSTER_SCHEME: Final = "rediss+cluster"
# What a cluster places a key by: all that have it are on one node.
SLOT_TAG: Final = "{gateway}"
_PORT: Final = 6379
_SENTINEL_PORT: Final = 26379


class SentinelUrl(NamedTuple):
    """`redis+sentinel://user:password@host:port,host:port/database?service=NAME`. User and password
    are the servers'; the sentinels' own is `sentinel_password`. `tls` has the options of
    connections to both; empty without TLS."""

    sentinels: list[tuple[str, int]]
    service: str
    user: str
    password: str
    database: int
    sentinel_password: str
    tls: dict[str, Any]


class ClusterUrl(NamedTuple):
    """`redis+cluster://user:password@host:port,host:port`, some nodes of a cluster."""

    nodes: list[tuple[str, int]]
    user: str
    password: str
    tls: dict[str, Any]


def read_sentinel_url(url: str) -> SentinelUrl | None:
    """None for a URL of one server. Raises `ValueError` in words for what is odd."""
    if url.partition("://")[0] not in (SCHEME, TLS_SCHEME):
        return None
    parts = urlsplit(url)
    sentinels, user, password = _read_place(parts, _SENTINEL_PORT)
    query = dict(parse_qsl(parts.query, keep_blank_values=True))
    service, own = query.pop("service", ""), query.pop("sentinel_password", "")
    tls = _take_tls(parts, query)
    if not service:
        raise ValueError("names no service: ?service=NAME, as the sentinels call it")
    if query:
        raise ValueError(f"knows no {', '.join(sorted(query))}")
    database = parts.path.strip("/") or "0"
    if not database.isdecimal():
        raise ValueError("its database is no number")
    return SentinelUrl(sentinels, service, user, password, int(database), own, tls)


def read_cluster_url(url: str) -> ClusterUrl | None:
    """None for a URL of another kind. Raises `ValueError` in words for what is odd."""
    if url.partition("://")[0] not in (CLUSTER_SCHEME, TLS_CLUSTER_SCHEME):
        return None
    parts = urlsplit(url)
    query = dict(parse_qsl(parts.query, keep_blank_values=True))
    tls = _take_tls(parts, query)
    if parts.path.strip("/") not in ("", "0") or query:
        raise ValueError("a cluster has database 0 alone, and no such options")
    return ClusterUrl(*_read_place(parts, _PORT), tls)


def _take_tls(parts: SplitResult, query: dict[str, str]) -> dict[str, Any]:
    """`ssl_ca_certs` is a file of authorities, instead of the system's."""
    if not parts.scheme.startswith("rediss"):
        return {}
    authorities = query.pop("ssl_ca_certs", "")
    tls = {"ssl_cert_reqs": "required", "ssl_check_hostname": True}
    return {**tls, **({"ssl_ca_certs": authorities} if authorities else {})}


def _read_place(parts: SplitResult, port: int) -> tuple[list[tuple[str, int]], str, str]:
    """Hosts with their ports, user and password."""
    account, _, hosts = parts.netloc.rpartition("@")
    user, _, password = account.partition(":")
    return [_read_host(each, port) for each in hosts.split(",")], unquote(user), unquote(password)


def _read_host(text: str, usual_port: int) -> tuple[str, int]:
    try:
        found = urlsplit(f"//{text}")
        host, port = found.hostname, found.port
    except ValueError:
        host, port = None, None
    if not host:
        raise ValueError("its host or its port is odd")
    return host, port or usual_port


def build_broker(url: str) -> tuple[str, dict[str, Any]]:
    """Celery's URL, and what its transport has to know besides."""
    cluster = read_cluster_url(url)
    if cluster is not None:
        scheme = "rediss" if cluster.tls else "redis"
        place = cluster.nodes, cluster.user, cluster.password, 0, cluster.tls
        [first, *_] = _build_urls(scheme, *place)
        return first, {"cluster_nodes": deque(cluster.nodes), "global_keyprefix": f"{SLOT_TAG}:"}
    found = read_sentinel_url(url)
    if found is None:
        return url.replace("unix://", "redis+socket://", 1), {}
    account = found.user, found.password, found.database
    urls = _build_urls("sentinel", found.sentinels, *account, found.tls)
    own: dict[str, Any] = {"socket_timeout": 2, "socket_connect_timeout": 2}
    own |= {"ssl": bool(found.tls), **found.tls}
    if found.sentinel_password:
        own["password"] = found.sentinel_password
    return ";".join(urls), {"master_name": found.service, "sentinel_kwargs": own}


def _build_urls(
    scheme: str,
    hosts: list[tuple[str, int]],
    user: str,
    password: str,
    database: int,
    tls: dict[str, Any],
) -> list[str]:
    query = f"?{urlencode(tls)}" if tls else ""
    account = f"{quote(user, safe='')}:{quote(password, safe='')}@" if password else ""
    return [
        f"{scheme}://{account}{f'[{host}]' if ':' in host else host}:{port}/{database}{query}"
        for host, port in hosts
    ]
