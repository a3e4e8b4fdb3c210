"""Lists of domains, however they are written."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.http.errors import InvalidRequest
from routing.tools.web.domains import Domains

LABELS = st.from_regex(r"[a-z][a-z0-9]{0,5}", fullmatch=True)
HOSTS = st.lists(LABELS, min_size=1, max_size=4).map(".".join)


@pytest.mark.parametrize(
    ("written", "url", "permitted"),
    [
        ("example.com", "https://example.com/", True),
        ("example.com", "https://a.b.example.com/x", True),
        ("example.com", "https://badexample.com/", False),
        ("example.com", "https://example.com.evil.org/", False),
        ("*.example.com", "https://www.example.com/", True),
        (" HTTPS://Example.com:443/ ", "https://example.com/x", True),
        ("example.com.", "http://example.com./", True),
        ("exämple.com", "https://xn--exmple-cua.com/", True),
        ("example.com/blog", "https://example.com/blog", True),
        ("example.com/blog", "https://example.com/blog/1", True),
        ("example.com/blog", "https://example.com/blog?page=2", True),
        ("example.com/blog", "https://example.com/blogs", False),
        ("example.com/Blog/", "https://example.com/Blog/1", True),
        ("example.com/Blog/", "https://example.com/blog/1", False),
        ("example.com/blog", "https://example.com//%62log/1", True),
        ("example.com/bl%6fg", "https://example.com/blog", True),
        ("example.com/grüße", "https://example.com/gr%C3%BC%C3%9Fe", True),
        ("example.com/a%2fb", "https://example.com/a%2Fb", True),
        ("example.com/blog", "https://example.com/a/../blog/1", True),
        ("localhost", "http://localhost:8000/", True),
        ("192.0.2.1", "http://192.0.2.1/", True),
        ("example.com", "mailto:me@example.com", False),
        ("example.com", "http://[::1", False),
    ],
)
def test_what_a_list_names(written: str, url: str, permitted: bool) -> None:
    assert Domains([written], None).permit_url(url) is permitted
    if permitted:
        assert not Domains(None, [written]).permit_url(url)
        assert not Domains([written], [written]).permit_url(url)


@pytest.mark.parametrize(
    "path",
    [
        *("/private", "/%70rivate", "//private", "/a/..//private/x", "/%2e/private"),
        *("/%2fprivate", "/a%2f..%2fprivate", "/a%5c..%5Cprivate", "/private%2fx"),
        "/private?page=2",
    ],
)
def test_no_spelling_of_a_path_gets_around_a_block(path: str) -> None:
    domains = Domains(None, ["example.com/private"])
    assert not domains.permit("example.com", path)
    assert domains.permit("example.com", "/privates")


@pytest.mark.parametrize(
    "path",
    [
        *("/blog/..%2fsecret", "/blog/%2e%2e/secret", "/blog%2f..%2fsecret"),
        *("/secret%2f..%2fblog/1", "/blog/..", "/?/blog"),
    ],
)
def test_no_spelling_of_a_path_gets_out_of_what_is_allowed(path: str) -> None:
    domains = Domains(["example.com/blog"], None)
    assert not domains.permit("example.com", path)
    assert domains.permit("example.com", "/blog/a%2fb")


@pytest.mark.parametrize(
    "written",
    [
        *("", "  ", "//", "*", "[::1]", "[2001:db8::1]/a", "::1", "a..b", "me@example.com", "a b"),
        *("example.com?a", "example.com/a?b=1", "exa*mple.com", "x" * 64, "ü" * 64, "a." * 128),
    ],
)
def test_what_is_no_domain_is_refused(written: str) -> None:
    for lists in (([written], None), (None, ["example.com", written])):
        with pytest.raises(InvalidRequest, match="Not a domain"):
            Domains(*lists)


def test_no_lists_permit_all() -> None:
    assert Domains(None, None).permit_url("https://example.com/")
    assert Domains([], []).permit_url("https://example.com/")


@given(HOSTS, LABELS)
def test_a_name_has_all_below_it_and_nothing_beside(host: str, label: str) -> None:
    domains = Domains([host], None)
    assert domains.permit(host, "/")
    assert domains.permit(f"{label}.{host}", "/x")
    assert not domains.permit(f"{label}{host}x", "/")


@given(st.lists(st.text(max_size=30), min_size=1, max_size=5), st.text(max_size=30))
def test_odd_lists_are_refused_or_hold(written: list[str], url: str) -> None:
    with contextlib.suppress(InvalidRequest):
        assert not Domains(written, written).permit_url(url)


@given(st.text("/.%2fFeE5cCab\\", max_size=30))
def test_what_is_blocked_is_not_allowed_however_it_is_written(path: str) -> None:
    domains = Domains(["example.com/a"], ["example.com/a"])
    assert not domains.permit("example.com", "/" + path)
