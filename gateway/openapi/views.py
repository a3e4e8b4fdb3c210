"""GET /api/v1/openapi.json and the page /docs that shows it."""

import threading
from typing import Final

from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import render
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_safe
from drf_spectacular.generators import SchemaGenerator
from drf_spectacular.utils import OpenApiResponse, extend_schema

from gateway.http.jsonio import JsonObject, dumps
from gateway.http.viewset import LeanViewSet
from gateway.openapi.components import NO_KEY
from gateway.openapi.errors import error_responses

_OBJECT: Final[JsonObject] = {"type": "object", "additionalProperties": True}


class _Document:
    """The document as JSON, made once per process."""

    def __init__(self) -> None:
        self._making = threading.Lock()
        self._content: bytes | None = None

    def content(self) -> bytes:
        with self._making:
            if self._content is None:
                self._content = dumps(SchemaGenerator().get_schema(request=None, public=True))
            return self._content


_document = _Document()


class DocumentViewSet(LeanViewSet):
    """The description of this API."""

    @extend_schema(
        operation_id="getOpenApiDocument",
        summary="Get this document",
        tags=["Documentation"],
        auth=NO_KEY,
        responses={
            200: OpenApiResponse(_OBJECT, description="OpenAPI 3.1."),
            **error_responses(500),
        },
    )
    def retrieve(self, request: HttpRequest) -> HttpResponseBase:
        content = _document.content()
        return HttpResponse(
            content,
            content_type="application/json",
            headers={"Content-Length": str(len(content))},
        )


@csrf_exempt
@require_safe
def docs(request: HttpRequest) -> HttpResponse:
    """The document in Swagger UI, every file of it served from here."""
    return render(request, "gateway/docs.html")
