"""The proxy itself: a fault that it does not make would let every test behind it pass."""

import threading
import time
from pathlib import Path

import psycopg
import pytest
import redis

from tests.support.bed import Bed
from tests.support.tcp_proxy import TcpProxy
from tests.support.valkey import ValkeyServer

WAIT_S = 10.0


def test_a_commit_is_cut_before_or_after_it_happened(stores: Bed) -> None:
    stores.migrated_template()  # PostgreSQL starts with its first use.
    with TcpProxy("127.0.0.1", stores.postgres.port) as proxy:
        url = f"postgresql://gateway@127.0.0.1:{proxy.port}/postgres"
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("CREATE TABLE proxied (n int)")
            # Past the fifth time the driver names its statements instead of spelling them.
            for n in range(7):
                _insert(connection, n)
            proxy.cut_after_commit("proxied")
            with pytest.raises(psycopg.OperationalError):
                _insert(connection, 100)
            proxy.wait_cut(WAIT_S)
        with psycopg.connect(url, autocommit=True) as connection:
            proxy.cut_before_commit("proxied")
            connection.execute("BEGIN")
            connection.execute("COMMIT")
            with pytest.raises(psycopg.OperationalError), connection.pipeline():
                _insert(connection, 200)
            proxy.wait_cut(WAIT_S)
        with psycopg.connect(url, autocommit=True) as connection:
            rows = connection.execute("SELECT n FROM proxied ORDER BY n").fetchall()
            connection.execute("DROP TABLE proxied")

    assert [n for (n,) in rows] == [*range(7), 100]
    assert proxy.cuts == 2


def _insert(connection: psycopg.Connection, n: int) -> None:
    connection.execute("BEGIN")
    connection.execute("INSERT INTO proxied VALUES (%s)", (n,))
    connection.execute("COMMIT")


def test_it_refuses_cuts_delays_and_freezes(tmp_path: Path) -> None:
    server = ValkeyServer(tmp_path)
    server.start()
    try:
        with TcpProxy(str(server.socket)) as proxy, redis.Redis(port=proxy.port) as client:
            client.set("wide", b"x" * 300_000)
            assert client.get("wide") == b"x" * 300_000
            proxy.refuse()
            assert client.ping()
            proxy.cut()
            with pytest.raises(redis.ConnectionError):
                client.ping()
            proxy.thaw()
            proxy.delay_s = 0.05
            began = time.monotonic()
            assert client.ping()
            assert time.monotonic() - began >= 0.1
            proxy.freeze()
            asked = threading.Thread(target=client.set, args=("after", "1"))
            asked.start()
            assert not _connect(server).get("after")
            proxy.thaw()
            asked.join(WAIT_S)
            assert _connect(server).get("after") == b"1"
    finally:
        server.stop()


def _connect(server: ValkeyServer) -> redis.Redis:
    return redis.Redis.from_url(server.url)
