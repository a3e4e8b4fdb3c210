"""Usage as files that the schedule writes."""

from importlib.util import find_spec

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
