"""JSON answers without Django's constructor."""

import pytest
from django.http import BadHeaderError, HttpResponse

from gateway.http.responses import written_response


def parts(response: HttpResponse) -> dict[str, object]:
    """Everything it is made of."""
    return {**vars(response), "headers": dict(response.headers)}


@pytest.mark.parametrize("headers", [None, {"X-Generation-Id": "gen-1", "Retry-After": "2"}])
def test_it_is_what_django_would_have_made(headers: dict[str, str] | None) -> None:
    ours = written_response(b'{"a":1}', status=201, headers=headers)

    theirs = HttpResponse(b'{"a":1}', status=201, content_type="application/json", headers=headers)
    theirs["Content-Length"] = "7"

    assert parts(ours) == parts(theirs)
    assert ours.reason_phrase == theirs.reason_phrase == "Created"
    assert sorted(ours.serialize().splitlines()) == sorted(theirs.serialize().splitlines())


def test_no_header_breaks_into_two() -> None:
    with pytest.raises(BadHeaderError, match="X-Bad"):
        written_response(b"{}", headers={"X-Bad": "1\r\nSet-Cookie: a=b"})
