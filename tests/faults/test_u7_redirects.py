"""U7: an upstream that points elsewhere is not followed, and nobody else gets its key."""

from collections.abc import Iterator

import pytest

from tests.support.raw_desk import RawDesk
from tests.support.raw_upstream import Script, Stage, Visit, answer_json, good_stream, whole

pytestmark = pytest.mark.thorough

pytest_plugins = ["tests.support.raw_fixtures"]
METADATA = "http://169.254.169.254/latest/meta-data/"
STATUSES = (301, 302, 303, 307, 308)
# What a follower of redirects, or of any header that names a place, would go to.
POINTERS = ("Location: {url}", "Refresh: 0; url={url}", "Content-Location: {url}", "Link: <{url}>")


@pytest.fixture(scope="module")
def elsewhere() -> Iterator[Stage]:
    """Another host: the same machine on another port, which every redirect here leads to."""
    with Stage() as stage:
        yield stage


def saying(reply: bytes) -> Script:
    return lambda visit: visit.send(reply)


def targets(elsewhere: Stage) -> list[str]:
    return [
        METADATA,
        f"http://localhost:{elsewhere.port}/v1/chat/completions",
        f"http://127.0.0.1:{elsewhere.port}/v1/chat/completions",
        f"//127.0.0.1:{elsewhere.port}/v1/chat/completions",
        f"http://127.0.0.1.example@127.0.0.1:{elsewhere.port}/v1/chat/completions",
    ]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("status", STATUSES)
def test_a_redirect_is_an_error_and_never_followed(
    raw: RawDesk, elsewhere: Stage, status: int, stream: bool
) -> None:
    for target in targets(elsewhere):
        lines = "\r\n".join(pointer.format(url=target) for pointer in POINTERS)
        reply = f"HTTP/1.1 {status} Elsewhere\r\n{lines}\r\nContent-Length: 0\r\n\r\n".encode()
        model_id = raw.model(saying(reply))

        response = raw.desk.post(model=model_id, stream=stream)

        error = raw.desk.told(response, 502, "unmapped")
        assert "raw-secret" not in response.text
        assert error["metadata"]["provider_name"] == "Raw"
        assert len(raw.visits(model_id)) == 1
    assert elsewhere.connections == 0


def test_a_redirect_goes_to_the_next_endpoint_of_the_catalogue(
    raw: RawDesk, elsewhere: Stage
) -> None:
    reply = f"HTTP/1.1 307 Elsewhere\r\nLocation: {elsewhere.url}/\r\nContent-Length: 0\r\n\r\n"

    told = raw.ask(lambda visit: visit.send(reply.encode()), kind="pair").json()

    assert told["provider"] == "Second"
    assert elsewhere.connections == 0


def test_an_answer_that_names_another_place_is_only_an_answer(
    raw: RawDesk, elsewhere: Stage
) -> None:
    """Also a cookie, or an alternative service, changes nothing for the next call."""
    more = f'Alt-Svc: h2="127.0.0.1:{elsewhere.port}"\r\nSet-Cookie: a=b\r\n'.encode()

    def script(visit: Visit) -> None:
        visit.send(whole(answer_json("Here.")).replace(b"\r\n", b"\r\n" + more, 1))

    model_id = raw.model(script)
    for _ in range(2):
        assert raw.desk.post(model=model_id).status_code == 200

    assert elsewhere.connections == 0
    assert all(b"cookie" not in visit.head.lower() for visit in raw.visits(model_id))


def test_the_key_goes_to_the_host_of_the_catalogue_alone(raw: RawDesk) -> None:
    """The twin: the key is sent, and to nobody but the provider whose it is."""
    raw.desk.upstream.clear()
    model_id = raw.model(good_stream("Here."))

    raw.desk.stream(model=model_id)

    (visit,) = raw.visits(model_id)
    assert b"Authorization: Bearer raw-secret" in visit.head
    assert raw.desk.upstream.requests() == []
