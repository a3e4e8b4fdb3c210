"""Plugins that give the model a server tool of the web, which it uses as it sees fit."""

from typing import Any, Final

from routing.formats.server_tools import WEB_FETCH, WEB_SEARCH
from routing.plugins.interface import Plugin

# What a setting of the plugin is called in the tool.
_OF_SEARCH: Final = {
    "engine": "engine",
    "mode": "mode",
    "max_results": "max_results",
    "max_uses": "max_uses",
    "search_prompt": "search_prompt",
    "include_domains": "allowed_domains",
    "exclude_domains": "excluded_domains",
    "user_location": "user_location",
}
_OF_FETCHING: Final = ("max_uses", "max_content_tokens", "allowed_domains", "blocked_domains")


class Web(Plugin):
    """`web`, and `:online` behind a model: `router:web_search`."""

    def tools(self) -> list[dict[str, Any]]:
        given = {
            called: self.settings[name]
            for name, called in _OF_SEARCH.items()
            if self.settings.get(name) is not None
        }
        return [{"type": WEB_SEARCH, "parameters": given}]


class WebFetch(Plugin):
    """`web-fetch`: `router:web_fetch`."""

    def tools(self) -> list[dict[str, Any]]:
        given = {name: self.settings[name] for name in _OF_FETCHING if name in self.settings}
        return [{"type": WEB_FETCH, "parameters": given}]
