"""The writer's connection on gevent's event loop."""

import psycopg
import pytest
from django.db import connection
from gevent import Timeout

from routing.metering.cooperative import CooperativeConnection

pytestmark = pytest.mark.django_db(transaction=True)


def test_a_flight_whose_server_is_gone_ends_at_once() -> None:
    """libpq closes its descriptor then; psycopg still ends the pipeline, and waits for it."""
    parameters = connection.get_connection_params()
    named = {key: parameters[key] for key in ("host", "port", "user", "dbname")}
    lost = CooperativeConnection.connect(**named, autocommit=True)
    try:
        with Timeout(5), pytest.raises(psycopg.OperationalError):
            _fly_without_a_server(lost)
    finally:
        lost.close()


def _fly_without_a_server(lost: CooperativeConnection) -> None:
    with lost.pipeline():
        with connection.cursor() as other:
            other.execute("SELECT pg_terminate_backend(%s, 5000)", [lost.info.backend_pid])
        lost.execute("SELECT 1").fetchone()
