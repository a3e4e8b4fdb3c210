"""`moderation`: the texts of a request shown to a hook that the operator configured."""

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from django.utils.module_loading import import_string
from gevent import Timeout

from gateway.database.db import under_gevent
from gateway.http.errors import PermissionDenied, Unavailable
from gateway.live_settings import settings
from routing.formats.chat.request import ChatRequest
from routing.guarding.texts import change_texts
from routing.plugins.interface import Plugin, PluginContext

log = logging.getLogger("routing.plugins")
_SHOWN_CHARS_MAX: Final = 100
_DOTS: Final = "..."
# For each text why it is not to go on; nothing where it may.
Hook = Callable[[Sequence[str]], Sequence[Sequence[str]]]


class Flagged(PermissionDenied):
    """The hook lets nobody say this."""

    error_type = "content_policy_violation"
    message = "Request blocked by moderation"
    default_reason = "moderation"

    def __init__(self, reasons: Sequence[str], text: str) -> None:
        details = {"reasons": list(reasons), "flagged_input": shorten(text)}
        super().__init__(metadata=details)


class Moderation(Plugin):
    """Without a hook it does nothing."""

    def find_refusal(
        self, chat: ChatRequest, context: PluginContext
    ) -> Callable[[], Flagged] | None:
        """Raises `Unavailable` where the hook fails: what it was to keep back must not go on
        without it."""
        path = settings.ROUTER_MODERATION_HOOK
        texts = list_texts(chat) if path else []
        if not texts:
            return None
        begun = time.monotonic()
        limit_s = min(float(settings.ROUTER_MODERATION_TIMEOUT), context.deadline - begun)
        verdicts = _run_hook(path, texts, max(0.0, limit_s))
        self.facts["moderation_latency_ms"] = round((time.monotonic() - begun) * 1000)
        for text, reasons in zip(texts, verdicts, strict=True):
            if reasons:
                self.stages.append(
                    {
                        "type": "plugin",
                        "name": "moderation",
                        "summary": f"blocked: {', '.join(reasons)}",
                        "data": {"action": "blocked", "reasons": list(reasons)},
                    }
                )
                return partial(Flagged, reasons, text)
        return None


def list_texts(chat: ChatRequest) -> list[str]:
    """The texts of a request, whoever wrote them, in order, each once."""
    texts: dict[str, None] = {}

    def note_text(text: str, by_user: bool) -> str:
        if text:
            texts[text] = None
        return text

    # What decides has its texts in its own body alone; of others it says the same again.
    change_texts(chat if chat.decides else replace(chat, original=None), note_text)
    return list(texts)


def shorten(text: str) -> str:
    """At most 100 characters; of a longer text the middle is left out."""
    if len(text) <= _SHOWN_CHARS_MAX:
        return text
    left = _SHOWN_CHARS_MAX - len(_DOTS)
    head = (left + 1) // 2
    return f"{text[:head]}{_DOTS}{text[len(text) - left + head :]}"


def _run_hook(path: str, texts: list[str], limit_s: float) -> list[list[str]]:
    try:
        hook: Hook = import_string(path)
        if under_gevent():
            with Timeout(limit_s, TimeoutError("the moderation hook took too long")):
                judged = hook(texts)
        else:
            judged = hook(texts)
        verdicts = [list(map(str, reasons)) for reasons in judged]
    except Exception as error:  # The hook is an operator's own code.
        log.exception("The moderation hook failed", exc_info=error)
        raise Unavailable("Moderation is not available") from None
    if len(verdicts) != len(texts):
        log.error("The moderation hook judged %d of %d texts", len(verdicts), len(texts))
        raise Unavailable("Moderation is not available")
    return verdicts
