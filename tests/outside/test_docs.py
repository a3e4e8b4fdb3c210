"""The snippets of README.md and docs/ work on the demo as they stand there.

A page's blocks are run from top to bottom in one shell, in a folder of their own. A block that
cannot says why in a comment above it, `<!-- not on the demo: REASON -->`; `<!-- tried: NAME -->`
marks those of `tests/faults/test_d4_backup_restore.py`.
"""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.outside.outsider import Outsider
from tests.support.manage import PROJECT

# The first one waits for the start.
pytestmark = [pytest.mark.timeout(180), pytest.mark.thorough]
PAGES = ["README.md", *sorted(str(p.relative_to(PROJECT)) for p in PROJECT.glob("docs/**/*.md"))]
BLOCK = re.compile(
    r"(?:^<!-- ([^\n]*) -->\n)?^( *)```(\w*)\n(.*?)^ *```$", re.MULTILINE | re.DOTALL
)
# Files that are shown, and what a program said.
NO_COMMANDS = {"yaml", "nginx", "caddy", ""}


def blocks(page: str) -> Iterator[tuple[str, str, str]]:
    """Of each block its mark, its language and what it says."""
    for mark, _, language, text in BLOCK.findall((PROJECT / page).read_text(encoding="utf-8")):
        yield mark, language, text


def script(page: str) -> str:
    """All that is to be run of the page. Every page begins with the key that the first one sets."""
    key = next(text for _, _, text in blocks("README.md") if "export API_KEY" in text)
    parts = [key.splitlines()[0]]
    for mark, language, text in blocks(page):
        if mark or language in NO_COMMANDS:
            continue
        assert language in {"sh", "python"}, f"{page}: how is ```{language} run?"
        is_shell = language == "sh"
        parts.append(text if is_shell else f".venv/bin/python - <<'SNIPPET'\n{text}SNIPPET")
    return "\n".join(parts)


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, marks=[] if page == "README.md" else pytest.mark.nightly)
        for page in PAGES
        if "\n" in script(page)
    ],
)
def test_the_snippets_of_a_page_work_as_they_stand(outsider: Outsider, page: str) -> None:
    _, facts = outsider.ensure_run()
    place = outsider.folder / Path(page).stem
    # A refusal ends the page, which curl alone would not.
    curl = "fail-with-body\nshow-error\n"
    ports = script(page).replace("http://127.0.0.1:8000", facts["root_url"])
    words = (
        f"mkdir {place}; cd {place}; ln -s {PROJECT}/.venv {PROJECT}/manage.py ."
        f"; printf '{curl}' > .curlrc; export CURL_HOME=$PWD\n"
    )

    done = outsider.run("sh", "-eu", "-c", words + ports)

    assert done.status == 0, f"{page}: {done.stdout}\n{done.stderr}"


def test_every_mark_gives_a_reason_or_a_test() -> None:
    marks = [mark for page in PAGES for mark, _, _ in blocks(page) if mark]

    assert [mark for mark in marks if not re.match(r"(not on the demo|tried): .+", mark)] == []


def test_a_command_is_in_a_block_that_is_run() -> None:
    command = re.compile(r"^ *(\$ )?(curl|kubectl|make|podman|sudo|\.venv/bin/\S+) ", re.MULTILINE)
    said = [(page, text) for page in PAGES for _, language, text in blocks(page) if not language]

    assert [(page, text) for page, text in said if command.search(text)] == []
