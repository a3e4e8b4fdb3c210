"""Compares docs/reference/settings.md with `gateway/environment`; `--write` writes the page."""

import os
import sys
import tempfile
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).resolve().parents[1]
PAGE = PROJECT / "docs" / "reference" / "settings.md"
HEAD = """# Settings

<!-- Written by `make docs` from gateway/environment; change it there. -->

All settings come from the environment. An odd value stops the start with one line that names the
setting, and so does a name that only looks like one. Sizes are in bytes. Each may stand in a file
instead, which the setting's name with `_FILE` behind it names (`SECRET_KEY_FILE=/run/secrets/key`).
"""
FIRST = ("Process and web", "Secrets", "Stores")
KINDS = {
    "folder": "folder",
    "url": "URL",
    "text": "text",
    "boolean": "1 or 0",
    "integer": "whole number",
    "optional_integer": "whole number",
    "decimal": "number",
    "seconds": "seconds",
    "choice": "word",
    "log_level": "word: `DEBUG`, `INFO`, `WARNING`, `ERROR`",
    "runtime": "word or import path",
    "words": "list",
    "networks": "list",
    "address": "address and port",
    "host_name": "host name",
    "host_names": "list",
    "origins": "list",
    "vendors": "list",
    "model_patterns": "list",
    "regional_hosts": "pairs",
    "header_pairs": "pairs",
    "plug_ins": "pairs",
    "tool_backends": "pairs",
    "base_url": "URL",
    "proxy": "URL",
    "import_path": "import path",
    "archive_store": "URL",
    "sandbox_users": "range",
    "cgroup": "folder or word",
    "key_prefix": "text",
    "secret": "secret",
}


def main() -> int:
    with tempfile.TemporaryDirectory() as home:
        # The page shows the defaults, not what this shell sets.
        for name in os.environ.keys() - {"PATH", "HOME"}:
            del os.environ[name]
        os.environ["GATEWAY_HOME"] = home
        sys.path.insert(0, str(PROJECT))
        page = render_page()
    if sys.argv[1:] == ["--write"]:
        PAGE.write_text(page, encoding="utf-8")
        return 0
    if PAGE.read_text(encoding="utf-8") == page:
        return 0
    sys.stderr.write("docs/reference/settings.md is not what gateway/environment says: make docs\n")
    return 1


def render_page() -> str:
    import gateway.settings  # noqa: F401 - Importing it declares every setting.
    from gateway.environment.section import Section

    lines = [HEAD]
    for section in sorted(Section.every.values(), key=lambda each: each.title not in FIRST):
        lines.append(f"## {section.title}\n")
        if section.note:
            lines.append(f"{section.note[:1].upper()}{section.note[1:]}.\n")
        lines.append("| Setting | Default | Value | Meaning |\n|---|---|---|---|")
        for each in sorted(section.declarations, key=lambda each: each.name):
            value = KINDS[each.reader] + render_bounds(each.bounds)
            default = render_default(each.default, each.reader, each.name)
            lines.append(f"| `{each.name}` | {default} | {value} | {each.meaning} |")
        lines.append("")
    return "\n".join(lines)


def render_default(default: Any, reader: str, name: str) -> str:
    if reader in ("folder", "url"):
        return str(default)
    if default in ("", None):
        return {"secret": "generated", "sandbox_users": "`1900000000-1900065535`"}.get(
            reader, "`auto`" if reader == "cgroup" else "none"
        )
    if isinstance(default, bool):
        default = int(default)
    size = ""
    if name.endswith("_BYTES") and default >= 1_048_576:
        mebibytes = default // 1_048_576
        size = f" ({mebibytes} MiB)" if mebibytes < 1024 else f" ({mebibytes // 1024} GiB)"
    return f"`{default}`{size}"


def render_bounds(bounds: dict[str, Any]) -> str:
    if choices := bounds.get("choices"):
        return ": " + ", ".join(f"`{each}`" for each in choices if each)
    least, most = bounds.get("minimum"), bounds.get("maximum")
    if most is not None and most >= 10**12:
        most = None
    if least is None and most is None:
        return ""
    if most is None:
        return f", at least {least}"
    return f", {least or 0} to {most}"


if __name__ == "__main__":
    sys.exit(main())
