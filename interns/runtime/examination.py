"""What `manage.py doctor` says of the walls of interns."""

from collections.abc import Iterator

from django.conf import settings

from gateway.doctor.findings import Finding, Question
from interns.runtime.sandbox import Sandboxes, SandboxMissing


def examine_sandbox(question: Question) -> Iterator[Finding]:
    if settings.INTERN_RUNTIME != "process":
        text = f"INTERN_RUNTIME is {settings.INTERN_RUNTIME}, which has walls of its own"
        yield Finding("sandbox", "unknown", text)
        return
    try:
        found = Sandboxes().isolation()
    except SandboxMissing as error:
        advice = "Install bubblewrap, and see docs/reference/interns-agent.md."
        yield Finding("sandbox", "warning", str(error), advice)
        return
    if found.is_none:
        advice = "Interns run as plain processes, and shells are refused."
        yield Finding("sandbox", "warning", found.reason, advice)
    else:
        yield Finding("sandbox", "ok", f"interns run inside {found.name}")
