import pytest

from routing.history.client_app import ClientApp, parse_app


@pytest.mark.parametrize(
    ("referer", "app"),
    [
        (None, ClientApp()),
        ("", ClientApp()),
        ("my app", ClientApp()),
        ("ftp://files.example", ClientApp()),
        ("http://[::1", ClientApp()),
        ("https://a.example:99999/", ClientApp()),
        ("https://A.example/", ClientApp("https://a.example", "https://a.example")),
        (
            "https://user:secret@a.example:8443/chat/?q=1#top",
            ClientApp("https://a.example:8443/chat", "https://a.example:8443"),
        ),
        (
            f"https://a.example/{'x' * 300}",
            ClientApp(f"https://a.example/{'x' * 182}", "https://a.example"),
        ),
    ],
)
def test_an_app_is_its_address_without_query_and_credentials(
    referer: str | None, app: ClientApp
) -> None:
    assert parse_app(referer) == app
