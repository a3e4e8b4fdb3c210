"""The search engine of this installation. Its HTTP client is loaded where there is one, and only
there: it is 6 MB in each process, and too long to load beside other requests."""

from importlib import import_module
from typing import Any, Final

from gateway.live_settings import settings
from routing.tools.web.engines import ENGINES, Engine, Sent

_CLIENT: Final = "routing.tools.web.asking"


def chosen() -> Engine | None:
    """The engine that the operator chose."""
    return ENGINES.get(settings.ROUTER_SEARCH_ENGINE)


def load_search() -> None:
    """Load what asks the engine, before there are requests."""
    if chosen() is not None:
        import_module(_CLIENT)


def answer_of(engine: Engine, sent: Sent, *, timeout_s: float) -> Any:
    """What the engine says to a request, as JSON. Raises `WebFailed`."""
    return import_module(_CLIENT).answer_of(engine, sent, timeout_s=timeout_s)
