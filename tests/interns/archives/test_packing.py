"""Archives: the same for the same files, whole, and harmless to whoever unpacks them."""

import io
import os
import socket
import tarfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interns.runtime.disk_archive import pack, repack, unpack


def pack_bytes(folder: Path) -> bytes:
    out = io.BytesIO()
    pack(folder, out)
    return out.getvalue()


def tar_of(*members: tuple[str, Any]) -> io.BytesIO:
    """A tar as somebody hostile would write it."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name, said in members:
            info = tarfile.TarInfo(name)
            if isinstance(said, bytes):
                info.size = len(said)
                tar.addfile(info, io.BytesIO(said))
            else:
                info.type, info.linkname = said
                tar.addfile(info)
    out.seek(0)
    return out


def fill_folder(folder: Path) -> Path:
    (folder / "b").mkdir()
    (folder / "b" / "run.sh").write_text("#!/bin/sh")
    (folder / "b" / "run.sh").chmod(0o700)
    (folder / "a.txt").write_text("hello")
    (folder / "empty").mkdir()
    (folder / "link").symlink_to("a.txt")
    (folder / "away").symlink_to("/etc/passwd")
    os.link(folder / "a.txt", folder / "b" / "twin")
    return folder


def test_an_archive_holds_everything_without_owners_and_times(tmp_path: Path) -> None:
    out = io.BytesIO()
    assert pack(fill_folder(tmp_path), out) == 3
    out.seek(0)
    with tarfile.open(fileobj=out) as tar:
        members = tar.getmembers()
        assert [(each.name, each.type, oct(each.mode)) for each in members] == [
            ("a.txt", tarfile.REGTYPE, "0o644"),
            ("away", tarfile.SYMTYPE, "0o777"),
            ("b", tarfile.DIRTYPE, "0o755"),
            ("b/run.sh", tarfile.REGTYPE, "0o755"),
            ("b/twin", tarfile.REGTYPE, "0o644"),
            ("empty", tarfile.DIRTYPE, "0o755"),
            ("link", tarfile.SYMTYPE, "0o777"),
        ]
        facts = {(each.uid, each.gid, each.uname, each.gname, each.mtime) for each in members}
        assert facts == {(0, 0, "", "", 0)}
        content = tar.extractfile("b/twin")
        assert content is not None
        assert content.read() == b"hello"


def test_the_same_files_make_the_same_bytes_by_an_engine_too(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    for folder in (one, other):
        folder.mkdir()
        fill_folder(folder)
    os.utime(other / "a.txt", (1, 1))
    assert pack_bytes(one) == pack_bytes(other)

    theirs, out = io.BytesIO(), io.BytesIO()
    with tarfile.open(fileobj=theirs, mode="w") as tar:
        tar.add(one, arcname="./")
    theirs.seek(0)
    assert repack(theirs, out) == 3
    assert out.getvalue() == pack_bytes(one)

    (other / "a.txt").write_text("hellO")
    assert pack_bytes(one) != pack_bytes(other)


def test_names_that_are_no_utf_8_and_very_long_ones(tmp_path: Path) -> None:
    odd = os.fsdecode(b"caf\xe9\xff")
    (tmp_path / odd).write_bytes(b"1")
    deep = tmp_path.joinpath(*["d" * 60] * 8)
    deep.mkdir(parents=True)
    (deep / "ü").write_bytes(b"2")
    target = tmp_path / "put"
    data = pack_bytes(tmp_path)
    target.mkdir()
    done = unpack(io.BytesIO(data), target)
    assert (done.files, done.skipped) == (2, [])
    assert (target / odd).read_bytes() == b"1"


def test_what_is_no_file_is_left_out_and_what_its_owner_may_not_read_is_kept(
    tmp_path: Path,
) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "secret").touch(mode=0)
    (tmp_path / "d").chmod(0)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "socket"))
        with tarfile.open(fileobj=io.BytesIO(pack_bytes(tmp_path))) as tar:
            assert tar.getnames() == ["d", "d/secret"]


def test_no_link_is_followed(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_text("canary")
    folder = tmp_path / "disk"
    folder.mkdir()
    (folder / "link").symlink_to(outside, target_is_directory=True)
    assert b"canary" not in pack_bytes(folder)
    with pytest.raises(NotADirectoryError):
        pack(folder / "link", io.BytesIO())


def test_a_missing_disk_and_what_is_no_tar_are_errors(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        pack(tmp_path / "none", io.BytesIO())
    nonsense = b"nonsense" * 200
    with pytest.raises(OSError, match="not a whole tar"):
        repack(io.BytesIO(nonsense), io.BytesIO())
    with pytest.raises(ValueError, match="not a whole tar"):
        unpack(io.BytesIO(nonsense), Path())


def test_a_disk_comes_back_as_it_was(tmp_path: Path) -> None:
    folder, target = tmp_path / "disk", tmp_path / "put"
    folder.mkdir()
    target.mkdir()
    (fill_folder(folder) / "away").unlink()
    done = unpack(io.BytesIO(pack_bytes(folder)), target)
    assert (done.files, done.skipped) == (3, [])
    assert pack_bytes(target) == pack_bytes(folder)


def test_nothing_gets_out(tmp_path: Path) -> None:
    place = tmp_path / "place"
    for number, member in enumerate(
        [
            (str(place / "evil"), b"x"),
            *((name, b"x") for name in ("../evil", "a/../../evil", "./")),
            ("/", (tarfile.DIRTYPE, "")),
            *(("evil", (tarfile.SYMTYPE, to)) for to in ("../outside", str(place))),
            ("evil", (tarfile.LNKTYPE, str(place / "there"))),
            *(("evil", (kind, "")) for kind in (tarfile.CHRTYPE, tarfile.FIFOTYPE)),
        ]
    ):
        target = place / f"put-{number}"
        target.mkdir(parents=True)
        (place / "there").write_text("untouched")
        done = unpack(tar_of(member, ("good", b"1")), target)
        assert (done.files, len(done.skipped)) == (1, 1), member
        assert [path.name for path in target.rglob("*")] == ["good"], member
        assert {path.name for path in place.iterdir()} == {"there", *target_names(number)}, member
        assert (place / "there").read_text() == "untouched"


def target_names(number: int) -> list[str]:
    return [f"put-{each}" for each in range(number + 1)]


def test_no_file_is_written_through_a_link_or_over_another(tmp_path: Path) -> None:
    """The link comes first in the archive and points inside, at what another link moves out."""
    target = tmp_path / "put"
    target.mkdir()
    done = unpack(tar_of(("a", (tarfile.SYMTYPE, "..")), ("a/evil", b"x")), target)
    assert (target / "a" / "evil").read_bytes() == b"x"
    assert not (tmp_path / "evil").exists()
    assert done.skipped == ["a"]
    with pytest.raises(FileExistsError):
        unpack(tar_of(("a/evil", b"theirs")), target)
    assert (target / "a" / "evil").read_bytes() == b"x"


_NAMES = st.text(st.sampled_from("ab./\\é\n"), max_size=12)


@given(members=st.lists(st.tuples(_NAMES, st.one_of(st.binary(max_size=3), _NAMES)), max_size=6))
def test_whatever_is_in_it_stays_inside(
    members: list[tuple[str, bytes | str]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    place = tmp_path_factory.mktemp("p")
    target = place / "put"
    target.mkdir()
    said = [
        (name, each if isinstance(each, bytes) else (tarfile.SYMTYPE, each))
        for name, each in members
    ]
    with suppress(OSError, ValueError):
        unpack(tar_of(*said), target)
    assert [path.name for path in place.iterdir()] == ["put"]
    for path in target.rglob("*"):
        if path.is_symlink():
            assert Path(os.path.normpath(path.parent / path.readlink())).is_relative_to(target)
