"""How the admin looks: the settings of its theme. The sidebar is `gateway.admin_sidebar`."""

from typing import Any, Final

from django.http import HttpRequest


def find_stylesheet(request: HttpRequest) -> str:
    # Files are found once settings are there.
    from django.templatetags.static import static

    return static("gateway/admin.css")


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
    "SHOW_VIEW_ON_SITE": False,
    "BORDER_RADIUS": "8px",
    "COLORS": {"primary": _BLUE},
    "STYLES": [find_stylesheet],
    "SIDEBAR": {"show_search": True, "navigation": "gateway.admin_sidebar.list_sections"},
}
