"""What leaves: usage as files that the schedule writes, reports of generations to destinations, and
files in S3 buckets as Django describes them."""

from importlib.util import find_spec
from typing import Any, Final
from urllib.parse import urlsplit

from gateway import env
from gateway.env import SettingError
from gateway.environment.section import Section

setting = Section("Exports of usage")
USAGE_EXPORT_FORMAT = setting(
    "USAGE_EXPORT_FORMAT",
    "`csv` or `parquet` writes a file of each UTC day's charges, an hour after the day; empty "
    "writes none. `parquet` needs the extra of that name",
    env.choice,
    "",
    ("", "csv", "parquet"),
)
if USAGE_EXPORT_FORMAT == "parquet" and find_spec("pyarrow") is None:
    raise SettingError(
        "USAGE_EXPORT_FORMAT", "parquet needs: pip install 'routing-gateway[parquet]'"
    )
USAGE_EXPORT_PER = setting(
    "USAGE_EXPORT_PER",
    "what a row of those files is for: a `generation`, or a `day` of a key, model, provider and "
    "end user",
    env.choice,
    "day",
    ("day", "generation"),
)
USAGE_EXPORT_STORE = setting(
    "USAGE_EXPORT_STORE",
    "where those files and `export_usage --to-s3` go, as `s3://bucket/prefix`; the schedule's are "
    "in `GATEWAY_HOME/exports` without it",
    env.archive_store,
)
USAGE_EXPORT_ENDPOINT = setting(
    "USAGE_EXPORT_ENDPOINT", "base URL of another S3 server than Amazon's", env.base_url
)
setting = Section("Destinations")
DESTINATION_PRIVATE_HOSTS = setting(
    "DESTINATION_PRIVATE_HOSTS",
    "hosts of your own network that destinations may name, with commas between",
    env.host_names,
)
DESTINATION_TIMEOUT = setting(
    "DESTINATION_TIMEOUT", "how long one delivery to a destination may take", env.seconds, 10
)
DESTINATION_CONTENT_CHARS = setting(
    "DESTINATION_CONTENT_CHARS",
    "about how many characters of each generation's prompt and answer are sent; the rest is cut",
    env.integer,
    65_536,
    minimum=1024,
    maximum=1_048_576,
)


# What is read back beyond that goes to a temporary file.
_IN_MEMORY_BYTES: Final = 8 * 1024 * 1024
_ATTEMPTS: Final = 2
# Many know neither bucket names in the host nor boto3's own checksums; ours is looked at.
_OTHER_SERVERS: Final[dict[str, Any]] = {
    "s3": {"addressing_style": "path"},
    "request_checksum_calculation": "when_required",
    "response_checksum_validation": "when_required",
}


def build_s3_storage(store: str, endpoint: str, *, silence_s: float) -> dict[str, Any]:
    """The entry of STORAGES for `s3://bucket/prefix`.

    `endpoint` is the URL of an S3-compatible server; credentials come from where boto3 looks for
    them. A server that lets itself be waited for `silence_s` is asked once more, then given up."""
    # The web process of a gateway without such a store never loads it.
    from botocore.config import Config

    client_options: dict[str, Any] = {
        # The one to connect holds for each piece that is sent, too.
        "connect_timeout": silence_s,
        "read_timeout": silence_s,
        "retries": {"mode": "standard", "total_max_attempts": _ATTEMPTS},
        **(_OTHER_SERVERS if endpoint else {}),
    }
    parts = urlsplit(store)
    options: dict[str, Any] = {
        "bucket_name": parts.netloc,
        "location": parts.path.strip("/"),
        "default_acl": None,
        "file_overwrite": True,
        "max_memory_size": _IN_MEMORY_BYTES,
        "client_config": Config(**client_options),
    }
    if endpoint:
        options["endpoint_url"] = endpoint
    return {"BACKEND": "storages.backends.s3.S3Storage", "OPTIONS": options}
