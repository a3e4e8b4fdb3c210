"""The page of an intern's host: static, with nothing from elsewhere, and allowed nothing more."""

from pathlib import Path
from typing import Final

_FOLDER: Final = Path(__file__).parent / "page_parts"
_POLICY: Final = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
)
SHARED_HEADERS: Final = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-cache",
}


def _read_part(name: str, content_type: str) -> tuple[str, bytes]:
    return f"{content_type}; charset=utf-8", (_FOLDER / name).read_bytes()


PAGE: Final = _read_part("chat.html", "text/html")
PARTS: Final = {
    "/-/chat.js": _read_part("chat.js", "text/javascript"),
    "/-/chat.css": _read_part("chat.css", "text/css"),
}
