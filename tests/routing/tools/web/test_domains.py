"""Lists of domains, however they are written."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

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
        ("", "https://example.com/", False),
        ("//", "https://example.com/", False),
        ("example.com", "mailto:me@example.com", False),
        ("example.com", "http://[::1", False),
    ],
)
def test_what_a_list_names(written: str, url: str, permitted: bool) -> None:
    assert Domains([written], None).permit_url(url) is permitted
    if permitted:
        assert not Domains(None, [written]).permit_url(url)
        assert not Domains([written], [written]).permit_url(url)


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
def test_odd_lists_raise_nothing(written: list[str], url: str) -> None:
    Domains(written, written).permit_url(url)
