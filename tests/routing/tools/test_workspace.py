"""The workspace of a request: what commands may do in it, and that nothing of it is left."""

import fcntl
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.test import override_settings

from gateway.live_settings import settings
from gateway.sandbox import host_users
from gateway.sandbox import subprocess_worker as apart
from routing.tools.interface import Result, ToolFailed
from routing.tools.registry import list_missing
from routing.tools.sandbox import bubblewrap
from routing.tools.sandbox.workspace import ToolWorkspace
from routing.tools.shell import OUTPUT_BYTES
from routing.tools.toolbox import Toolbox
from tests.routing.tools.made import context
from tests.support.promptness import in_time


@pytest.fixture
def toolbox() -> Iterator[Toolbox]:
    if not bubblewrap.is_available():
        pytest.skip(f"no sandbox here: {bubblewrap.isolation().reason}")
    kinds = ("bash", "shell", "files", "apply_patch")
    toolbox = Toolbox([{"type": f"router:{kind}"} for kind in kinds])
    yield toolbox
    toolbox.close()


def ask(toolbox: Toolbox, name: str, **arguments: Any) -> Result:
    fitted = toolbox.find(name)
    assert fitted is not None
    return fitted.tool.run(arguments, context())


def ask_json(toolbox: Toolbox, name: str, **arguments: Any) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(ask(toolbox, name, **arguments).text)
    return found


def bash(toolbox: Toolbox, command: str, timeout_s: float = 10) -> dict[str, Any]:
    return ask_json(toolbox, "bash", command=command, timeout_s=timeout_s)


def fails(toolbox: Toolbox, words: str, name: str, **arguments: Any) -> None:
    with pytest.raises(ToolFailed, match=words):
        ask(toolbox, name, **arguments)


def programs() -> list[str]:
    """Commands of sandboxes that this process started and has not yet buried."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        try:
            words = (place / "cmdline").read_bytes().split(b"\0")
            parent = int((place / "stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
        if parent == os.getpid() and words[0].endswith(b"bwrap"):
            found.append(place.name)
    return found


def test_output_status_and_files_between_calls(toolbox: Toolbox) -> None:
    first = ask(toolbox, "bash", command="echo out; echo err >&2; echo kept > file; exit 3")
    assert json.loads(first.text) == {"stdout": "out\n", "stderr": "err\n", "return_code": 3}
    assert first.block_type == "router_bash_tool_result"
    assert first.block["type"] == "router_bash_result"
    assert first.item["command"].startswith("echo out")
    assert bash(toolbox, "cat file")["stdout"] == "kept\n"


def test_several_commands_and_the_tools_beside_share_the_files(toolbox: Toolbox) -> None:
    ask(toolbox, "apply_patch", type="create_file", path="src/a.py", diff="+print(1)\n+print(2)")
    ask(toolbox, "apply_patch", type="update_file", path="src/a.py", diff="-print(2)\n+print(3)")
    again: dict[str, Any] = {"type": "create_file", "path": "src/a.py", "diff": "+b"}
    fails(toolbox, "The file exists already", "apply_patch", **again)
    ran = ask(toolbox, "shell", commands=["python3 src/a.py", "exit 4"])
    first, second = ({"type": "exit", "exit_code": code} for code in (0, 4))
    assert ran.item["output"] == [
        {"stdout": "1\n3\n", "stderr": "", "outcome": first},
        {"stdout": "", "stderr": "", "outcome": second},
    ]
    assert ran.block_type == "router_shell_tool_result"
    ask(toolbox, "files", action="write", path="b.txt", content="b\u00e4")
    listed = ask_json(toolbox, "files", action="list")["files"]
    assert listed == [{"path": "b.txt", "bytes": 3}, {"path": "src/a.py", "bytes": 18}]
    assert ask_json(toolbox, "files", action="read", path="b.txt") == {"text": "b\u00e4"}
    ask(toolbox, "files", action="delete", path="b.txt")
    ask(toolbox, "apply_patch", operation={"type": "delete_file", "path": "src/a.py"})
    assert bash(toolbox, "find . -type f")["stdout"] == ""


WRONG: list[tuple[str, dict[str, Any], str]] = [
    ("bash", {}, "A command must be a text"),
    ("bash", {"command": "a\0"}, "A command has at most"),
    ("shell", {"commands": []}, "commands must be a list"),
    ("shell", {"commands": ["x"] * 17}, "commands must be a list"),
    ("shell", {"commands": [5]}, "A command must be a text"),
    ("files", {"action": "move"}, "action must be one of"),
    ("files", {"action": "read"}, "path must be a text"),
    ("files", {"action": "read", "path": "none"}, "No such file or directory"),
    ("files", {"action": "read", "path": "a\0"}, "No path has a null"),
    ("files", {"action": "write", "path": "x"}, "content must be a text"),
    ("files", {"action": "write", "path": "x", "content": "y" * 1_048_577}, "at most 1048576"),
    ("files", {"action": "write", "path": "/usr/x", "content": ""}, "Read-only file system"),
    ("files", {"action": "read", "path": "\ud800"}, "no valid Unicode text"),
    ("apply_patch", {"type": "x", "path": "y"}, "type must be one of"),
    ("apply_patch", {"type": "update_file", "path": "y"}, "diff must be a text"),
    ("apply_patch", {"type": "create_file", "path": "y", "diff": "x"}, "begins with"),
    ("apply_patch", {"type": "update_file", "path": "y", "diff": "-x"}, "No such file"),
    ("apply_patch", {"type": "update_file", "path": "/dev/zero", "diff": "-x"}, "too long"),
]


def test_what_is_wrong_is_told_and_costs_no_files(toolbox: Toolbox) -> None:
    bash(toolbox, "echo kept > file")
    for name, arguments, words in WRONG:
        fails(toolbox, words, name, **arguments)
    assert ask_json(toolbox, "files", action="read", path="file") == {"text": "kept\n"}


def test_odd_files_are_read_and_listed_as_far_as_that_goes(toolbox: Toolbox) -> None:
    assert ask_json(toolbox, "files", action="read", path="/dev/zero")["truncated"]
    bash(toolbox, "echo kept > file; touch $'bad\\xff'")
    listed = ask_json(toolbox, "files", action="list")["files"]
    assert [each["path"] for each in listed] == ["bad\ufffd", "file"]
    assert bash(toolbox, "cat file")["stdout"] == "kept\n"


def test_nothing_of_the_host_is_there(toolbox: Toolbox) -> None:
    seen = bash(
        toolbox,
        f"cat {Path(__file__).resolve()} {bubblewrap.__file__} /etc/passwd;"
        " env; ls -a; hostname; id -u;"
        " for f in /x /dev/x /usr/x /srv/x; do echo > $f; done; set -- /proc/[0-9]*; echo $#;"
        " exec 3<>/dev/tcp/127.0.0.1/80",
    )
    # The sandbox's first process, what serves it and the shell.
    names = {line.partition("=")[0] for line in seen["stdout"].splitlines() if "=" in line}
    assert names == {"PATH", "LANG", "HOME", "PWD", "SHLVL", "_"}
    user, processes = seen["stdout"].rpartition("workspace\n")[2].split()
    assert int(user) in settings.SANDBOX_UIDS if host_users.is_root() else user == "1000"
    assert processes == "3"
    said = seen["stderr"]
    assert said.count("No such file or directory") >= 3
    assert said.count("Read-only file system") + said.count("/srv/x: No such file") == 4
    assert "/dev/tcp/127.0.0.1/80: " in said


@pytest.mark.parametrize(
    ("command", "stopped"),
    [
        ("sleep 60", "stopped: its time was up"),
        ("yes", "stopped: it did not cease to write"),
        (":(){ :|:& };: ; sleep 60", "stopped: too many processes"),
        (
            "for n in 1 2 3 4 5 6 7 8; do"
            """ python3 -c 'x = b"x" * (90 << 20); import time; time.sleep(60)' & done; wait""",
            "stopped: too much memory",
        ),
    ],
)
def test_what_takes_too_much_is_stopped_and_the_workspace_stays(
    toolbox: Toolbox, command: str, stopped: str
) -> None:
    bash(toolbox, "echo kept > file")
    ran = bash(toolbox, command, timeout_s=0.3 if "time" in stopped else 30)
    assert ran["stopped"] == stopped
    assert ran["return_code"] == 137
    assert len(ran["stdout"]) <= OUTPUT_BYTES
    # The kernel takes its time to clear away what a killed process held.
    wait_for_three = "until set -- /proc/[0-9]*; [ $# = 3 ]; do sleep 0.1; done"
    assert bash(toolbox, f"cat file; {wait_for_three}; echo $#")["stdout"] == "kept\n3\n"


SHARED = """
import mmap
memory = mmap.mmap(-1, 100 << 20)
for at in range(0, len(memory), 4096): memory[at] = 1
"""
FIRST_THREAD_ENDED = """
import ctypes, threading
def hold():
    held = b"1" * (30 << 20)
    time.sleep(60)
[os.fork() for _ in range(2)]
threading.Thread(target=hold).start()
ctypes.CDLL(None).syscall(60 if os.uname().machine == "x86_64" else 93, 0)
"""


@override_settings(ROUTER_SHELL_MEMORY_BYTES=64 << 20)
@pytest.mark.parametrize("program", [SHARED, FIRST_THREAD_ENDED])
def test_memory_that_no_process_has_for_itself_is_bounded(toolbox: Toolbox, program: str) -> None:
    ran = bash(toolbox, f"exec python3 -c 'import os, time\n{program}\ntime.sleep(60)'", 30)
    assert ran.get("stopped") == "stopped: too much memory", ran


def test_a_child_that_nobody_waits_for_is_no_offence(toolbox: Toolbox) -> None:
    program = 'import subprocess, time; p = subprocess.Popen(["true"]); time.sleep(1); print("ok")'
    ran = bash(toolbox, f"python3 -c '{program}'")
    assert ran == {"stdout": "ok\n", "stderr": "", "return_code": 0}


def test_ten_megabytes_are_cut(toolbox: Toolbox) -> None:
    ran = bash(toolbox, "head -c 10000000 /dev/zero | tr '\\0' x")
    assert (len(ran["stdout"]), ran["truncated"], ran["return_code"]) == (OUTPUT_BYTES, True, 0)


def test_a_full_disk_is_the_commands_own_trouble(toolbox: Toolbox) -> None:
    for place in ("/workspace", "/tmp", "/dev/shm"):  # noqa: S108 - Of the sandbox.
        filled = bash(toolbox, f"for n in 1 2; do head -c 60M /dev/zero > {place}/$n || exit; done")
        assert "No space left on device" in filled["stderr"]


def test_what_a_command_leaves_behind_ends_with_it(toolbox: Toolbox) -> None:
    began = time.monotonic()
    ran = bash(toolbox, "setsid sleep 60 & nohup sleep 60 & disown -a; echo done")
    assert ran["stdout"] == "done\n"
    in_time(time.monotonic() - began, 30)
    assert "sleep" not in bash(toolbox, "cat /proc/[0-9]*/cmdline")["stdout"]


@pytest.mark.parametrize("command", ["kill -9 -1", "kill -STOP $PPID; sleep 60"])
def test_who_ends_the_workspace_gets_a_new_one(toolbox: Toolbox, command: str) -> None:
    bash(toolbox, "echo kept > file")
    fails(toolbox, "lost with all its files", "bash", command=command, timeout_s=0.5)
    assert bash(toolbox, "ls")["stdout"] == ""


def test_what_the_inside_has_open_is_not_for_commands(toolbox: Toolbox) -> None:
    seen = bash(toolbox, "echo lie > /proc/$PPID/fd/1; cat /proc/$PPID/environ; echo done")
    assert seen["stdout"] == "done\n"
    assert seen["stderr"].count("Permission denied") == 2


def test_it_inherits_nothing(toolbox: Toolbox) -> None:
    """Not even what is open for everybody that is started, as a server's sockets are."""
    reading, writing = os.pipe()
    copy = fcntl.fcntl(writing, fcntl.F_DUPFD, 700)
    os.set_inheritable(copy, True)
    apart._list_inheritable_files.cache_clear()
    try:
        seen = bash(toolbox, "ls /proc/1/fd /proc/$PPID/fd")["stdout"].split()
    finally:
        os.close(reading)
        os.close(writing)
        os.close(copy)
        apart._list_inheritable_files.cache_clear()
    assert str(copy) not in seen


def test_nothing_is_left_once_it_is_closed(toolbox: Toolbox) -> None:
    bash(toolbox, "true")
    assert programs()
    toolbox.close()
    assert not programs()
    fails(toolbox, "The request has ended", "bash", command="true")


def test_one_that_nobody_knows_any_more_ends(toolbox: Toolbox) -> None:
    workspace = ToolWorkspace()
    workspace.ask({"do": "list", "path": "."})
    assert programs()
    del workspace
    until = time.monotonic() + 5
    while programs() and time.monotonic() < until:
        Path("/proc").stat()
    assert not [each for each in programs() if Path(f"/proc/{each}/exe").exists()]


@override_settings(ROUTER_SHELLS_MAX=1)
def test_there_are_only_so_many_at_once(toolbox: Toolbox) -> None:
    bash(toolbox, "true")
    other = ToolWorkspace()
    with pytest.raises(ToolFailed, match="Too many workspaces"):
        other.ask({"do": "list", "path": "."})
    toolbox.close()
    assert other.ask({"do": "list", "path": "."})["files"] == []
    other.close()


@pytest.mark.parametrize("kind", ["bash", "shell", "files", "apply_patch"])
def test_without_a_sandbox_they_are_refused(kind: str) -> None:
    tool = {"type": f"router:{kind}"}
    with override_settings(ROUTER_SHELL="off"):
        assert list_missing([tool]) == [f"router:{kind}"]
        assert list_missing([{"type": "router:tool_search"}]) == []
    with override_settings(ROUTER_SHELL="off", ROUTER_TOOL_BACKENDS={f"router:{kind}": "a.b"}):
        assert list_missing([tool]) == []


@pytest.mark.parametrize(
    "settings",
    [{"engine": "native"}, {"environment": {"type": "container_reference", "container_id": "c1"}}],
)
def test_a_shell_of_somewhere_else_is_refused(settings: dict[str, Any]) -> None:
    assert list_missing([{"type": "router:bash", "parameters": settings}]) == ["router:bash"]
