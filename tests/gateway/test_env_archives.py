"""Readers of the settings that say where archives go and which private hosts interns may reach."""

from pathlib import Path

import pytest

from gateway import env
from gateway.archive_storage import archive_storage
from gateway.env import SettingError


@pytest.mark.parametrize(
    ("said", "read"),
    [
        ("", frozenset()),
        ("Metrics.Internal, 127.0.0.1,::1", frozenset({"metrics.internal", "127.0.0.1", "::1"})),
    ],
)
def test_hosts_are_read_in_lower_case(
    monkeypatch: pytest.MonkeyPatch, said: str, read: frozenset[str]
) -> None:
    monkeypatch.setenv("X", said)
    assert env.host_names("X") == read


@pytest.mark.parametrize("said", ["http://a.b", "a.b/c", "*.a", "a b", "a.b:80 c"])
def test_other_hosts_stop_the_start(monkeypatch: pytest.MonkeyPatch, said: str) -> None:
    monkeypatch.setenv("X", said)
    with pytest.raises(SettingError):
        env.host_names("X")


@pytest.mark.parametrize("said", ["", "s3://bucket", "s3://my.bucket-1/some/prefix"])
def test_stores_are_buckets_or_the_home_folder(monkeypatch: pytest.MonkeyPatch, said: str) -> None:
    monkeypatch.setenv("X", said)
    assert env.archive_store("X") == said
    monkeypatch.setenv("X", said + "/" if said else "")
    assert env.archive_store("X") == said


@pytest.mark.parametrize("said", ["s3://", "s3://B", "bucket", "gs://bucket", "s3://bucket/a b"])
def test_other_stores_stop_the_start(monkeypatch: pytest.MonkeyPatch, said: str) -> None:
    monkeypatch.setenv("X", said)
    with pytest.raises(SettingError):
        env.archive_store("X")


def test_a_store_says_bucket_prefix_and_server(tmp_path: Path) -> None:
    local = archive_storage("", "", tmp_path, silence_s=2)
    assert local["OPTIONS"] == {"location": str(tmp_path / "archives"), "allow_overwrite": True}
    place = ("s3://bucket/a/b", "http://127.0.0.1:9000")
    told = archive_storage(*place, tmp_path, silence_s=2)["OPTIONS"]
    assert (told["bucket_name"], told["location"]) == ("bucket", "a/b")
    assert told["endpoint_url"] == "http://127.0.0.1:9000"
    amazon = archive_storage("s3://bucket", "", tmp_path, silence_s=2)["OPTIONS"]
    assert "endpoint_url" not in amazon
    for client in (told["client_config"], amazon["client_config"]):
        assert (client.connect_timeout, client.read_timeout) == (2, 2)
