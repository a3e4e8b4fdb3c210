"""How the admin looks: the settings of its theme. The sidebar is `gateway.theme.sidebar`."""

from typing import Any, Final

from django.http import HttpRequest


# Files are found once settings are there.
def find_stylesheet(request: HttpRequest) -> str:
    from django.templatetags.static import static

    return static("gateway/admin.css")


def find_icon(request: HttpRequest) -> str:
    from django.templatetags.static import static

    return static("console/favicon.svg")


def find_script(request: HttpRequest) -> str:
    from django.templatetags.static import static

    return static("gateway/admin.js")


# The console's own blue, from light to dark.
_BLUE: Final = {
    "50": "#eceefc",
    "100": "#dde1fa",
    "200": "#c0c7f5",
    "300": "#9aa6ff",
    "400": "#7683f0",
    "500": "#5565e2",
    "600": "#3d4fd1",
    "700": "#2f3fb0",
    "800": "#29368d",
    "900": "#252f70",
    "950": "#181e45",
}
UNFOLD: Final[dict[str, Any]] = {
    "SITE_TITLE": "Routing Gateway",
    "SITE_HEADER": "Routing Gateway",
    "SITE_SUBHEADER": "Admin",
    "SITE_SYMBOL": "hub",
    "SITE_URL": "/",
    "SITE_FAVICONS": [{"rel": "icon", "type": "image/svg+xml", "href": find_icon}],
    "SHOW_VIEW_ON_SITE": False,
    "BORDER_RADIUS": "8px",
    "COLORS": {"primary": _BLUE},
    "STYLES": [find_stylesheet],
    "SCRIPTS": [find_script],
    "SIDEBAR": {"show_search": True, "navigation": "gateway.theme.sidebar.list_sections"},
}
