"""Where archives of interns' disks are kept, as Django's `STORAGES` wants it said."""

from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

# What is read back beyond that goes to a temporary file.
_IN_MEMORY_BYTES: Final = 8 * 1024 * 1024


def archive_storage(store: str, endpoint: str, home: Path) -> dict[str, Any]:
    """`store` is empty for `archives/` in the home folder, or `s3://bucket/prefix`.

    `endpoint` is the URL of an S3-compatible server; credentials come from where boto3 looks for
    them."""
    if not store:
        return {
            "BACKEND": "interns.archives.local.LocalArchives",
            "OPTIONS": {"location": str(home / "archives")},
        }
    parts = urlsplit(store)
    options: dict[str, Any] = {
        "bucket_name": parts.netloc,
        "location": parts.path.strip("/"),
        "default_acl": None,
        "file_overwrite": True,
        "max_memory_size": _IN_MEMORY_BYTES,
    }
    if endpoint:
        options |= {"endpoint_url": endpoint, "client_config": _for_other_servers()}
    return {"BACKEND": "storages.backends.s3.S3Storage", "OPTIONS": options}


def _for_other_servers() -> Any:
    """Many know neither bucket names in the host nor boto3's own checksums; ours is looked at."""
    from botocore.config import Config

    options: dict[str, Any] = {
        "s3": {"addressing_style": "path"},
        "request_checksum_calculation": "when_required",
        "response_checksum_validation": "when_required",
    }
    return Config(**options)  # type: ignore[no-untyped-call]  # botocore has no types.
