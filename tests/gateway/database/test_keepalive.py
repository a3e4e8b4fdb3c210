"""How soon a server notices that a client vanished."""

import pytest
from django.db import connections

from tests.support.bed import Bed


@pytest.mark.django_db(transaction=True)
def test_the_server_hears_of_keepalives_after_the_start_which_poolers_refuse(stores: Bed) -> None:
    if not stores.is_postgres:
        return
    database = connections.create_connection("default")
    # Unix sockets have none.
    options = {"options": "-c tcp_keepalives_count=7", **database.settings_dict["OPTIONS"]}
    del options["pool"]
    database.settings_dict = {
        **database.settings_dict,
        "HOST": "127.0.0.1",
        "OPTIONS": options,
    }
    with database.cursor() as cursor:
        # Of the URL are its own options alone, and they win.
        assert cursor.connection.info.get_parameters()["options"] == "-c tcp_keepalives_count=7"
        for name, value in (
            ("tcp_keepalives_idle", "10"),
            ("tcp_keepalives_count", "7"),
            ("tcp_user_timeout", "25000"),
        ):
            cursor.execute(f"SHOW {name}")
            assert cursor.fetchone() == (value,)
    database.close()
