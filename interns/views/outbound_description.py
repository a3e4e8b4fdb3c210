"""How the outbound door of interns is described in the OpenAPI document."""

from typing import Final

from django.conf import settings
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse, extend_schema

from gateway.http.jsonio import JsonObject
from gateway.openapi.components import (
    FLAG,
    TEXT,
    WHOLE,
    Component,
    array,
    described,
    nullable,
    obj,
)
from interns.outbound.fetch_request import BYTES_DEFAULT, HEADER_CHARS_MAX, HEADERS_MAX, METHODS
from interns.views.description import INTERN_ERROR, intern_errors
from routing.fetching.targets import URL_CHARS_MAX

_WHOLE_BODY: Final = "`{{secret:name}}` in it is replaced by the secret's value."
_PROPERTIES: Final[JsonObject] = {
    "url": {
        "type": "string",
        "minLength": 1,
        "maxLength": URL_CHARS_MAX,
        "description": "http or https. `{{secret:name}}` in its path or query is replaced.",
    },
    "method": {"type": "string", "enum": list(METHODS), "default": "GET"},
    "headers": {
        "type": "object",
        "maxProperties": HEADERS_MAX,
        "additionalProperties": {"type": "string", "maxLength": HEADER_CHARS_MAX},
        "description": "`{{secret:name}}` and `{{basic:user:name}}` in values are replaced.",
    },
    "body": nullable({"type": "string", "description": _WHOLE_BODY}),
    "body_base64": nullable(described(TEXT, "Bytes instead of `body`, sent as they are.")),
    "max_bytes": nullable(
        {
            "type": "integer",
            "minimum": 1,
            "maximum": settings.INTERN_FETCH_BYTES,
            "description": f"What is more of the answer is cut off; {BYTES_DEFAULT} unless said.",
        }
    ),
    "timeout_seconds": nullable(
        {
            "type": "number",
            "exclusiveMinimum": 0,
            "maximum": settings.INTERN_FETCH_SECONDS,
        }
    ),
    "follow_redirects": {"type": "boolean", "default": True},
}
FETCH: Final = Component(
    "InternFetch",
    {
        "type": "object",
        "required": ["url"],
        "additionalProperties": False,
        "properties": _PROPERTIES,
    },
)
FETCHED: Final = Component(
    "InternFetched",
    obj(
        {
            "status": described(WHOLE, "What the site answered."),
            "url": described(TEXT, "Where the answer came from in the end."),
            "headers": {"type": "object", "additionalProperties": TEXT},
            "body": nullable(described(TEXT, "Null where it is not text.")),
            "body_base64": nullable(described(TEXT, "Null where `body` is not.")),
            "truncated": FLAG,
            "redirects": array(TEXT),
            "secrets": described(array(TEXT), "Names of the secrets that were sent."),
        }
    ),
)
fetching = extend_schema(
    operation_id="fetchForIntern",
    summary="Fetch something for an intern",
    description="Sends a request to the public Internet for a running intern. Secrets go only to "
    "the exact hosts that they are bound to, over https, and their values are taken out of the "
    "answer. Takes the intern's own key.",
    tags=["Interns"],
    parameters=[
        OpenApiParameter("intern_id", str, OpenApiParameter.PATH, description="The intern's id.")
    ],
    request={"application/json": FETCH},
    responses={
        200: OpenApiResponse(FETCHED, description="The site's answer, whatever it was."),
        **intern_errors(400, 401, 403, 404, 409, 413, 415, 429, 500, 502),
        504: OpenApiResponse(INTERN_ERROR, description="The site took too long."),
    },
)
