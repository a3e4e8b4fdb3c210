"""Charts of an endpoint's and a provider's last day, on their pages and without anything loaded."""

import re
import xml.etree.ElementTree as ET
from datetime import UTC, datetime, timedelta

import pytest
from django.test import Client

from gateway.shared_cache import SharedCache
from routing.admin.charts import STRETCH, draw_history, load_stretches
from routing.catalogue.models import Endpoint, Model, Provider
from routing.statistics.models import EndpointSample, ProviderProbe
from tests.routing.selection import entries
from tests.routing.serving.learning import FAILURE, Clock, attempt, observer, refresh_all
from tests.support.admin_pages import page
from tests.support.operations import endpoint, fill

pytestmark = [pytest.mark.django_db, pytest.mark.both]
UNTIL = datetime(2026, 1, 2, 12, 3, tzinfo=UTC)


@pytest.fixture
def served_endpoint() -> Endpoint:
    fill(1)
    EndpointSample.objects.all().delete()
    return Endpoint.objects.get()


@pytest.fixture
def other(served_endpoint: Endpoint) -> Endpoint:
    """Another one of the same provider."""
    return endpoint(
        Model.objects.get(), served_endpoint.provider, tag=f"{served_endpoint.provider.slug}/other"
    )


def sample(at: Endpoint, *, ago: int = 1, calls: int = 10, errors: int = 0, **more: int) -> None:
    """`ago` counts stretches of five minutes before `UNTIL`."""
    EndpointSample.objects.create(
        endpoint=at, started_at=UNTIL - ago * STRETCH, calls=calls, errors=errors, **more
    )


def pictures(html: str) -> list[ET.Element]:
    """The drawings, which must be whole XML."""
    return [ET.fromstring(svg) for svg in re.findall(r"<svg viewBox.*?</svg>", html, re.DOTALL)]  # noqa: S314 - Our own page.


def draw_pictures(served_endpoint: Endpoint) -> list[ET.Element]:
    return pictures(str(draw_history([served_endpoint.pk], until=UNTIL)))


def test_status_uptime_and_latency_are_drawn(served_endpoint: Endpoint) -> None:
    sample(served_endpoint, ago=300)
    assert (
        str(draw_history([served_endpoint.pk], until=UNTIL))
        == "<p>No traffic in the last 24 hours.</p>"
    )
    for ago in range(1, 20):
        sample(served_endpoint, ago=ago, first_token_p50_ms=100 + ago, first_token_p90_ms=400)
    status, uptime, latency = draw_pictures(served_endpoint)
    assert len(status.findall("rect")) == 19
    assert [len(each.findall("path")) for each in (uptime, latency)] == [1, 2]
    assert [each.get("role") for each in (status, uptime, latency)] == ["img"] * 3
    # The scale ends above the slowest, at a round number.
    assert "500" in [text.text for text in latency.findall("text")]


@pytest.mark.parametrize(
    ("counts", "colour"),
    [
        ({"calls": 10}, "#2e8540"),
        ({"calls": 10, "errors": 1}, "#e5a000"),
        ({"calls": 10, "errors": 5}, "#c9252d"),
        ({"calls": 0, "rate_limited": 3}, "#8a5fbf"),
    ],
)
def test_status_is_told_by_colour_and_words(
    served_endpoint: Endpoint, counts: dict[str, int], colour: str
) -> None:
    sample(served_endpoint, **counts)
    (bar,) = draw_pictures(served_endpoint)[0].findall("rect")
    assert bar.get("fill") == colour
    assert (bar.findtext("title") or "").startswith("11:58 UTC: ")


def test_endpoints_of_a_provider_are_put_together(
    served_endpoint: Endpoint, other: Endpoint
) -> None:
    sample(served_endpoint, calls=30, errors=3, first_token_p50_ms=100, first_token_p90_ms=200)
    sample(other, calls=10, first_token_p50_ms=500, first_token_p90_ms=600)
    sample(other, ago=2, calls=0, rate_limited=2)
    limited, both = load_stretches(EndpointSample.objects.all())
    assert (both.calls, both.errors, both.p50_ms, both.p90_ms) == (40, 3, 200, 300)
    assert both.uptime == pytest.approx(92.5)
    assert (limited.rate_limited, limited.uptime, limited.p50_ms) == (2, None, None)


def test_the_last_bar_ends_now(
    served_endpoint: Endpoint, other: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, clock = SharedCache("redis://127.0.0.1:1/0", timeout_s=0.1), Clock()
    seen = observer(clock)
    monkeypatch.setattr("routing.statistics.endpoint_samples.observer", lambda: seen)
    monkeypatch.setattr("routing.statistics.endpoint_samples.shared_cache", lambda: store)
    sample(served_endpoint, ago=2)
    for at, failure in (
        (served_endpoint, None),
        (served_endpoint, None),
        (other, FAILURE),
        (served_endpoint, None),
    ):
        made = attempt(clock, entries.endpoint(pk=at.pk), failure=failure)
        seen.record_attempt(made, streamed=True, tokens=50)
    refresh_all(seen)
    of_one = str(draw_history([served_endpoint.pk], until=UNTIL))
    of_both = str(draw_history([served_endpoint.pk, other.pk], until=UNTIL))
    assert "11:58 UTC: 3 calls, 0 failed" in of_one
    assert "11:58 UTC: 4 calls, 1 failed" in of_both
    assert "11:53 UTC: 10 calls, 0 failed" in of_one


def test_the_pages_show_them_and_load_nothing(
    admin_client: Client, served_endpoint: Endpoint
) -> None:
    ago = datetime.now(UTC) - timedelta(minutes=10)
    EndpointSample.objects.create(endpoint=served_endpoint, started_at=ago, calls=3)
    ProviderProbe.objects.filter(provider=served_endpoint.provider).update(
        ok=False, status=None, said="No answer: the connection was refused"
    )
    for model, pk in ((Endpoint, served_endpoint.pk), (Provider, served_endpoint.provider_id)):
        html = admin_client.get(page(model, "change", pk)).content.decode()
        assert len(pictures(html)) == 3
        assert not re.search(r'(src|href)="(https?:)?//', html)
        # A new row has no past.
        assert admin_client.get(page(model, "add")).status_code == 200
    # The provider's page tells of the last probe.
    for words in ("does not answer since", "connection was refused", 'name="probe_interval_s"'):
        assert words in html
