"""The locks name no host, pin every package by hash, and hold what pyproject.toml asks for."""

import re
import sys
import tomllib
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

PROJECT = Path(__file__).resolve().parents[1]
_ADDRESS = re.compile(r"https?://|--(?:extra-)?index-url|--find-links|file:")
_PIN = re.compile(r"^([A-Za-z0-9._-]+)(?:\[[^]]*\])?==([^ ;\\]+)", re.MULTILINE)


def pins(text: str) -> dict[str, str]:
    """Canonical name → version."""
    return {canonicalize_name(name): pinned for name, pinned in _PIN.findall(text)}


def entries(text: str) -> list[str]:
    """Each requirement with its hashes, comments dropped."""
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    return [entry for entry in re.split(r"\n(?=\S)", "\n".join(lines).strip()) if entry]


def problems(name: str, wanted: list[str]) -> list[str]:
    text = (PROJECT / name).read_text(encoding="utf-8")
    found = [f"{name}: names an address" for _ in _ADDRESS.findall(text)]
    found += [
        f"{name}: not pinned by hash: {entry.split()[0]}"
        for entry in entries(text)
        if "==" not in entry.split()[0] or "--hash=sha256:" not in entry
    ]
    locked = pins(text)
    for requirement in map(Requirement, wanted):
        pinned = locked.get(canonicalize_name(requirement.name))
        if pinned is None or not requirement.specifier.contains(pinned, prereleases=True):
            found.append(f"{name}: does not satisfy {requirement}; run `make lock`")
    return found


def main() -> int:
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text(encoding="utf-8"))
    runtime = project["project"]["dependencies"]
    found = problems("requirements.lock", runtime)
    found += problems("requirements-dev.lock", runtime + project["dependency-groups"]["dev"])
    extras = project["project"]["optional-dependencies"]
    found += problems("requirements-kubernetes.lock", runtime + extras["kubernetes"])
    for problem in found:
        sys.stderr.write(f"{problem}\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
