import pytest

from routing.history.apps import App, app_of


@pytest.mark.parametrize(
    ("referer", "app"),
    [
        (None, App()),
        ("", App()),
        ("my app", App()),
        ("ftp://files.example", App()),
        ("http://[::1", App()),
        ("https://a.example:99999/", App()),
        ("https://A.example/", App("https://a.example", "https://a.example")),
        (
            "https://user:secret@a.example:8443/chat/?q=1#top",
            App("https://a.example:8443/chat", "https://a.example:8443"),
        ),
        (
            f"https://a.example/{'x' * 300}",
            App(f"https://a.example/{'x' * 182}", "https://a.example"),
        ),
    ],
)
def test_an_app_is_its_address_without_query_and_credentials(referer: str | None, app: App) -> None:
    assert app_of(referer) == app
