"""The workspace never leads out of itself."""

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from interns.agent.workspace import DEPTH_MAX, AgentDisk, AgentWorkspace, WorkspaceError

FILE_BYTES = 1000
NAMES = st.text(st.characters(exclude_characters="/\0", codec="utf-8"), min_size=1, max_size=20)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret").write_text("secret")
    (tmp_path / "root").mkdir()
    return tmp_path / "root"


@pytest.fixture
def files(root: Path) -> AgentWorkspace:
    return AgentWorkspace(root, file_bytes=FILE_BYTES)


def test_what_is_written_is_read_and_listed(files: AgentWorkspace, root: Path) -> None:
    assert files.write("notes/a.txt", "héllo") == 6
    assert files.write("/b.txt", "slashes at the start mean the workspace") == 39
    assert files.read("notes/a.txt") == "héllo"
    assert files.names() == ["b.txt", "notes/"]
    assert files.names("notes") == ["a.txt"]
    files.write("notes/a.txt", "new")
    assert (root / "notes" / "a.txt").read_text() == "new"
    assert files.names("notes") == ["a.txt"]


@pytest.mark.parametrize(
    "path", ["../outside/secret", "notes/../../outside/secret", "..", "a/..", "", ".", "/", "a\0b"]
)
def test_paths_that_are_none(files: AgentWorkspace, path: str) -> None:
    refuses(files, path)


def refuses(files: AgentWorkspace, path: str) -> None:
    with pytest.raises(WorkspaceError):
        files.read(path)
    with pytest.raises(WorkspaceError):
        files.write(path, "overwritten")


def test_links_are_not_followed(files: AgentWorkspace, root: Path) -> None:
    outside = root.parent / "outside"
    (root / "file").symlink_to(outside / "secret")
    (root / "folder").symlink_to(outside)
    refuses(files, "file")
    refuses(files, "folder/secret")
    for name in ("file", "folder"):
        with pytest.raises(WorkspaceError):
            files.names(name)
    assert (outside / "secret").read_text() == "secret"
    assert files.names() == ["file@", "folder@"]


def test_what_is_no_file_is_refused(files: AgentWorkspace, root: Path) -> None:
    (root / "folder").mkdir()
    os.mkfifo(root / "pipe")
    for name in ("folder", "pipe"):
        refuses(files, name)


def test_bounds(files: AgentWorkspace, root: Path) -> None:
    files.write("full", "x" * FILE_BYTES)
    assert len(files.read("full")) == FILE_BYTES
    with pytest.raises(WorkspaceError):
        files.write("over", "x" * (FILE_BYTES + 1))
    (root / "large").write_bytes(b"x" * (FILE_BYTES + 1))
    with pytest.raises(WorkspaceError):
        files.read("large")
    with pytest.raises(WorkspaceError):
        files.write("/".join("d" * (DEPTH_MAX + 1)), "x")
    assert files.names() == ["full", "large"]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(parts=st.lists(st.one_of(NAMES, st.sampled_from(["..", ".", "link"])), max_size=5))
def test_nothing_outside_is_ever_touched(root: Path, parts: list[str]) -> None:
    if not (root / "link").is_symlink():
        (root / "link").symlink_to(root.parent / "outside")
    files = AgentWorkspace(root, file_bytes=FILE_BYTES)
    for path in ("/".join(parts), "/".join([*parts, "secret"])):
        for use in (files.read, lambda p: files.write(p, "mine"), files.names):
            try:
                assert use(path) != "secret"
            except WorkspaceError:
                continue
    assert [p.name for p in (root.parent / "outside").iterdir()] == ["secret"]
    assert (root.parent / "outside" / "secret").read_text() == "secret"


def test_a_disk_is_full_when_its_files_take_its_room(root: Path) -> None:
    disk = AgentDisk(root, 1_000_000)
    assert disk.has_room(900_000)
    (root / "folder").mkdir()
    (root / "folder" / "a").write_bytes(b"x" * 600_000)
    (root / "out").symlink_to(root.parent / "outside")
    assert 600_000 <= disk.used_bytes() < 700_000
    assert disk.has_room(300_000)
    assert not disk.has_room(400_000)
    # Counting ends once it is full.
    assert AgentDisk(root, 1).used_bytes() < 600_000 + 8192
    assert not AgentDisk(root, 1).has_room()
