"""Images and files of the chat format as blocks of the messages API."""

import base64
import binascii
from typing import Any, Final, NamedTuple
from urllib.parse import unquote_to_bytes

Block = dict[str, Any]

_PDF: Final = "application/pdf"
# What says nothing about the content; the content's own first bytes may.
_UNTOLD: Final = ("", "application/octet-stream", "binary/octet-stream")
_PDF_BEGINNING: Final = "JVBERi"  # "%PDF-" in base64.
_TEXT_TYPES: Final = (
    "application/json",
    "application/xml",
    "application/yaml",
    "application/x-yaml",
    "application/javascript",
)


class _Data(NamedTuple):
    """What a data URL holds, in base64 whichever way the URL had it."""

    media_type: str
    encoded: str


def image_block(url: str) -> Block:
    """An image by URL or from a data URL."""
    data = _data(url)
    if data is None:
        return {"type": "image", "source": {"type": "url", "url": url}}
    return {"type": "image", "source": _encoded(_image_type(data.media_type), data.encoded)}


def document_block(file: dict[str, Any]) -> Block:
    """A chat `file`: an image stays an image, anything else is a document named after the file."""
    url = file.get("file_data")
    data = _data(url) if url is not None else None
    if data is not None and data.media_type.startswith("image/"):
        return {"type": "image", "source": _encoded(_image_type(data.media_type), data.encoded)}
    if data is not None:
        source = _document(data)
    elif url is not None:
        source = {"type": "url", "url": url}
    else:
        source = {"type": "file", "file_id": file["file_id"]}
    block: Block = {"type": "document", "source": source}
    if title := file.get("filename"):
        block["title"] = title
    return block


def _data(url: str) -> _Data | None:
    """None for a URL of another scheme."""
    if url[:5].lower() != "data:":
        return None
    header, _, content = url[5:].partition(",")
    media_type, *parameters = [part.strip() for part in header.split(";")]
    if "base64" not in [parameter.lower() for parameter in parameters]:
        content = base64.b64encode(unquote_to_bytes(content)).decode()
    return _Data(media_type.lower(), content)


def _image_type(media_type: str) -> str:
    return "image/jpeg" if media_type == "image/jpg" else media_type


def _document(data: _Data) -> Block:
    if data.media_type in _UNTOLD and data.encoded.startswith(_PDF_BEGINNING):
        return _encoded(_PDF, data.encoded)
    if data.media_type.startswith("text/") or data.media_type in _TEXT_TYPES:
        text = _text(data.encoded)
        if text is not None:
            return {"type": "text", "media_type": "text/plain", "data": text}
    return _encoded(data.media_type, data.encoded)


def _text(encoded: str) -> str | None:
    try:
        return base64.b64decode(encoded).decode()
    except (binascii.Error, ValueError):
        return None


def _encoded(media_type: str, data: str) -> Block:
    return {"type": "base64", "media_type": media_type, "data": data}
