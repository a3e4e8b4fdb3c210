"""A statement on its way out, of the API and of the admin alike."""

from django.http import HttpResponse, HttpResponseBase, StreamingHttpResponse

from accounts.services.statement_file import IN_MEMORY_BYTES, StatementFile


def download(made: StatementFile) -> HttpResponseBase:
    """The file as an attachment; a large one leaves in pieces."""
    size_bytes = made.size_bytes
    response: HttpResponseBase
    if size_bytes <= IN_MEMORY_BYTES:
        response = HttpResponse(b"".join(made.pieces()), content_type=made.form.content_type)
    else:
        response = StreamingHttpResponse(made.pieces(), content_type=made.form.content_type)
        # A download that never begins must not keep the file.
        response._resource_closers.append(made.lines.close)  # type: ignore[attr-defined]  # What Django closes with it.
    response["Content-Length"] = str(size_bytes)
    response["Content-Disposition"] = f'attachment; filename="{made.name}"'
    response["Cache-Control"] = "no-store"
    return response
