"""Nothing but what is listed here may run by itself when an interpreter of .venv starts.

Python executes lines of `.pth` files and the modules `sitecustomize` and `usercustomize` before any
program: the favourite place of a package that means harm.
"""

import hashlib
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

# Name → SHA-256 of the content.
ALLOWED = {
    # setuptools' shim for distutils; Python's own venv puts it there up to 3.11.
    "distutils-precedence.pth": "2638ce9e2500e572a5e0de7faed6661eb569d1b696fcba07b0dd223da5f5d224",
}
_PATTERNS = ("*.pth", "sitecustomize*", "usercustomize*")


def list_unexpected(folder: Path) -> Iterator[str]:
    """A line for each file of a site-packages folder that runs by itself and is not listed."""
    for pattern in _PATTERNS:
        for file in sorted(folder.glob(pattern)):
            if file.is_dir() or ALLOWED.get(file.name) != _digest(file):
                yield f"{file.name}: runs whenever Python starts and is not on the list"


def _digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def main() -> int:
    folders = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
    found = [line for folder in sorted(folders) for line in list_unexpected(Path(folder))]
    for line in found:
        sys.stderr.write(f"{line}\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
