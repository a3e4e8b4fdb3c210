"""S3 and what speaks its protocol: one JSON object per trace, each in a signed PUT."""

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any, ClassVar, Final
from urllib.parse import quote

from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError

from gateway.http.jsonio import dumps
from routing.destinations.config import DestinationConfig, Headers, Secret, Url, Word
from routing.destinations.facts import MetadataGroups, TraceFacts
from routing.destinations.senders.interface import JSON, TEST_HEADER, OutgoingRequest, Sender
from routing.destinations.spans import build_payload, empty_payload, find_ids

_NANO: Final = 1_000_000_000
_BUCKET: Final = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
_REGION: Final = re.compile(r"[a-z0-9-]{1,64}")
_PLACES: Final = ("prefix", "date", "year", "month", "day", "apiKeyName")
_PLACE: Final = re.compile(r"\{([^{}]*)\}")


def _check_bucket(name: str) -> str:
    if not _BUCKET.fullmatch(name):
        raise PydanticCustomError("bucket", "Invalid input: no name of a bucket")
    return name


def _check_region(name: str) -> str:
    if not _REGION.fullmatch(name):
        raise PydanticCustomError("region", "Invalid input: no name of a region")
    return name


def _check_template(template: str) -> str:
    unknown = [name for name in _PLACE.findall(template) if name not in _PLACES]
    if unknown:
        places = ", ".join(f"{{{name}}}" for name in _PLACES)
        text = "Invalid input: expected {places}"
        raise PydanticCustomError("template", text, {"places": places})
    return template


class S3Config(DestinationConfig):
    secrets: ClassVar[frozenset[str]] = frozenset({"secretAccessKey", "sessionToken"})

    bucketName: Annotated[str, AfterValidator(_check_bucket)]
    accessKeyId: Word
    secretAccessKey: Secret
    region: Annotated[str, AfterValidator(_check_region)] = "us-east-1"
    endpoint: Url | None = None
    sessionToken: Secret | None = None
    prefix: Annotated[str, Field(max_length=255)] = "router-traces"
    pathTemplate: Annotated[str, Field(max_length=255), AfterValidator(_check_template)] = (
        "{prefix}/{date}"
    )
    headers: Headers | None = None


def _build(
    config: S3Config, traces: Sequence[TraceFacts], groups: MetadataGroups
) -> OutgoingRequest:
    """The key is the trace's own, so that what is sent again replaces what had arrived."""
    (facts,) = traces
    at = datetime.fromtimestamp(facts.ended_ns / _NANO, UTC)
    values = {
        "prefix": config.prefix,
        "date": f"{at:%Y-%m-%d}",
        "year": f"{at:%Y}",
        "month": f"{at:%m}",
        "day": f"{at:%d}",
        # It may hold any character; a slash in it makes no folder.
        "apiKeyName": quote(facts.api_key_name, safe=" ") or "unnamed",
    }
    folder = _PLACE.sub(lambda place: values[place[1]], config.pathTemplate)
    name = f"{find_ids(facts).trace}-{facts.ended_ns // 1_000_000}.json"
    # Dots climb no folders here, and empty ones would make another key.
    parts = [part for part in folder.split("/") if part not in ("", ".", "..")]
    return _sign(config, "/".join([*parts, name]), dumps(build_payload([facts], groups)))


def _build_test(config: S3Config) -> OutgoingRequest:
    """It writes an object, because nothing else shows that objects may be written."""
    key = f"{config.prefix}/connection-test.json".strip("/")
    return _sign(config, key, dumps(empty_payload()), extra=dict([TEST_HEADER]))


def _sign(
    config: S3Config, key: str, body: bytes, extra: Mapping[str, str] | None = None
) -> OutgoingRequest:
    if config.endpoint is not None:
        bucket = f"{config.endpoint.rstrip('/')}/{config.bucketName}"
    elif "." in config.bucketName:
        # A certificate for all buckets names none with a dot.
        bucket = f"https://s3.{config.region}.amazonaws.com/{config.bucketName}"
    else:
        bucket = f"https://{config.bucketName}.s3.{config.region}.amazonaws.com"
    url = f"{bucket}/{quote(key, safe='/-_.~')}"
    headers = dict([JSON]) | dict(config.headers or {}) | dict(extra or {})
    request = AWSRequest("PUT", url, headers=headers, data=body)
    credentials = Credentials(config.accessKeyId, config.secretAccessKey, config.sessionToken)
    S3SigV4Auth(credentials, "s3", config.region).add_auth(request)
    signed = tuple((str(name), str(value)) for name, value in request.headers.items())
    return OutgoingRequest(url, signed, body, "PUT")


S3: Final[Sender[Any]] = Sender(S3Config, _build, _build_test, is_trace_alone=True)
