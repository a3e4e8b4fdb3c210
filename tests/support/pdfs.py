"""PDFs as small as they come, with a text on each page."""

import base64
import io
from collections.abc import Sequence

from pypdf import PdfWriter


def pdf(*pages: str, password: str = "") -> bytes:
    """A PDF with these pages, each one line of ASCII; locked where there is a password."""
    made = _assemble([_page(text) for text in pages])
    return _encrypt(made, password) if password else made


def data_url(content: bytes, kind: str = "application/pdf") -> str:
    return f"data:{kind};base64,{base64.b64encode(content).decode()}"


def _page(text: str) -> bytes:
    shown = text.replace("\\", "\\\\").replace("(", "\\(").replace(")", "\\)")
    return f"BT /F1 12 Tf 72 720 Td ({shown}) Tj ET".encode("ascii") if text else b""


def _assemble(contents: Sequence[bytes]) -> bytes:
    first = 4
    kids = " ".join(f"{first + 2 * number} 0 R" for number in range(len(contents)))
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {len(contents)} >>".encode(),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    for number, content in enumerate(contents):
        objects.append(
            b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] "
            b"/Resources << /Font << /F1 3 0 R >> >> "
            + f"/Contents {first + 2 * number + 1} 0 R >>".encode()
        )
        objects.append(
            f"<< /Length {len(content)} >>\nstream\n".encode() + content + b"\nendstream"
        )
    out, places = bytearray(b"%PDF-1.4\n"), list[int]()
    for number, each in enumerate(objects, start=1):
        places.append(len(out))
        out += f"{number} 0 obj\n".encode() + each + b"\nendobj\n"
    start = len(out)
    out += f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n".encode()
    for place in places:
        out += f"{place:010d} 00000 n \n".encode()
    out += f"trailer\n<< /Size {len(objects) + 1} /Root 1 0 R >>\n".encode()
    return bytes(out + f"startxref\n{start}\n%%EOF\n".encode())


def _encrypt(content: bytes, password: str) -> bytes:
    writer = PdfWriter(clone_from=io.BytesIO(content))
    writer.encrypt(password, algorithm="RC4-128")
    out = io.BytesIO()
    writer.write(out)
    return out.getvalue()
