"""Known vulnerabilities among the packages the gateway runs with: pip-audit over the lock.

Exit 1 for a known vulnerability, and for anything that leaves a doubt about one. Exit 0, with a
loud message, where the vulnerability service cannot be reached: a change is not at fault for that.
"""

import json
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).resolve().parents[1]
LOCK = PROJECT / "requirements.lock"
ANSWER_S = 15
WHOLE_S = 180
# What pip-audit's last words hold when the network or the service failed rather than the check.
_NETWORK = re.compile(
    r"ConnectionError|ConnectTimeout|ReadTimeout|NameResolutionError|ProxyError|SSLError"
    r"|Could not connect to|PyPI is not redirecting properly|\b5\d\d Server Error"
)


@dataclass
class Verdict:
    """`unreachable` says why nothing could be asked; `problems` are reasons to fail."""

    audited: int = 0
    unreachable: str = ""
    problems: list[str] = field(default_factory=list)


def verdict(report: str, words: str) -> Verdict:
    """Judge pip-audit's JSON report, empty where it came to none, and what it said on stderr."""
    try:
        packages: list[dict[str, Any]] = json.loads(report)["dependencies"]
    except ValueError:
        if _NETWORK.search(words):
            return Verdict(unreachable=_last_line(words))
        return Verdict(problems=[f"pip-audit came to no report: {_last_line(words)}"])
    skipped = [package for package in packages if "skip_reason" in package]
    audited = len(packages) - len(skipped)
    if not audited:
        # pip-audit calls this "no known vulnerabilities": a mirror that keeps no records of them
        # answers 404 for each version.
        return Verdict(unreachable="it has no record of any of our packages")
    found = [f"not audited: {package['skip_reason']}" for package in skipped]
    for package in packages:
        for known in package.get("vulns", []):
            fixed = ", ".join(known["fix_versions"]) or "no version yet"
            name = f"{package['name']} {package['version']}"
            found.append(f"{name} has {known['id']}, mended in {fixed}")
    return Verdict(audited, problems=found)


def _last_line(words: str) -> str:
    return next((line for line in reversed(words.splitlines()) if line.strip()), "it said nothing")


def ask(lock: Path) -> tuple[str, str]:
    """pip-audit's report and its stderr."""
    program = Path(sys.executable).with_name("pip-audit")
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        options = ["--disable-pip", "--require-hashes", "--progress-spinner", "off"]
        output = ["--format", "json", "--output", str(report), "--timeout", str(ANSWER_S)]
        try:
            done = subprocess.run(  # noqa: S603 - Our own program and our own lock.
                [program, "-r", lock, *options, *output],
                stderr=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                text=True,
                timeout=WHOLE_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return "", f"ReadTimeout: no answer within {WHOLE_S} s"
        return report.read_text("utf-8") if report.exists() else "", done.stderr


def main() -> int:
    found = verdict(*ask(LOCK))
    if found.unreachable:
        sys.stderr.write(
            "WARNING: NOTHING WAS AUDITED. The vulnerability service cannot be reached: "
            f"{found.unreachable}. Run `make lint` where it can be before a release.\n"
        )
    for problem in found.problems:
        sys.stderr.write(f"{LOCK.name}: {problem}\n")
    return 1 if found.problems else 0


if __name__ == "__main__":
    sys.exit(main())
