"""The system calls that a sandbox may not make, as a program for the kernel's filter (seccomp).

`bwrap --seccomp` takes it as it is. Numbers are those of the kernel's tables for each processor.
"""

import errno
import struct
from typing import Final, NamedTuple

# linux/filter.h and linux/seccomp.h.
_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_NUMBER, _PROCESSOR, _FIRST_ARGUMENT = 0, 4, 16
_ALLOW, _KILL, _REFUSE = 0x7FFF0000, 0x80000000, 0x00050000
_INSTRUCTION: Final = struct.Struct("=HBBI")
# CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID and NEWNET.
_NAMESPACES: Final = 0x7E020000
# AF_UNIX, AF_INET, AF_INET6, AF_NETLINK. Others, as AF_VSOCK, know no network namespace.
_FAMILIES: Final = (1, 2, 10, 16)
_X32_BIT: Final = 0x40000000


class _Processor(NamedTuple):
    """What the kernel calls it, whether it has a second table, and numbers of its own."""

    audit: int
    has_x32: bool
    clone: int
    socket: int
    refused: dict[str, int]


# The same for all processors.
_REFUSED: Final = {
    "io_uring_setup": 425,
    "io_uring_enter": 426,
    "io_uring_register": 427,
    "open_tree": 428,
    "move_mount": 429,
    "fsopen": 430,
    "fsconfig": 431,
    "fsmount": 432,
    "fspick": 433,
    "pidfd_getfd": 438,
    "mount_setattr": 442,
    "quotactl_fd": 443,
    "memfd_secret": 447,
}
_CLONE3: Final = 435
# In the order of the names below; None where a processor has no such call.
_NAMES: Final = [
    "ptrace",
    "process_vm_readv",
    "process_vm_writev",
    "kcmp",
    "keyctl",
    "add_key",
    "request_key",
    "bpf",
    "userfaultfd",
    "perf_event_open",
    "mount",
    "umount2",
    "pivot_root",
    "chroot",
    "unshare",
    "setns",
    "init_module",
    "finit_module",
    "delete_module",
    "kexec_load",
    "kexec_file_load",
    "reboot",
    "swapon",
    "swapoff",
    "acct",
    "quotactl",
    "syslog",
    "settimeofday",
    "clock_settime",
    "adjtimex",
    "clock_adjtime",
    "sethostname",
    "setdomainname",
    "name_to_handle_at",
    "open_by_handle_at",
    "fanotify_init",
    "lookup_dcookie",
    "vhangup",
    "personality",
    # What they make in memory need not be mapped by, nor open in, any process.
    "memfd_create",
    "shmget",
    "semget",
    "msgget",
]
_X86_64: Final = (
    *(101, 310, 311, 312, 250, 248, 249, 321, 323),
    *(298, 165, 166, 155, 161, 272, 308, 175, 313),
    *(176, 246, 320, 169, 167, 168, 163, 179, 103),
    *(164, 227, 159, 305, 170, 171),
    *(303, 304, 300, 212, 153, 135),
    *(319, 29, 64, 68),
)
_AARCH64: Final = (
    *(117, 270, 271, 272, 219, 217, 218, 280, 282),
    *(241, 40, 39, 41, 51, 97, 268, 105, 273),
    *(106, 104, 294, 142, 224, 225, 89, 60, 116),
    *(170, 112, 171, 266, 161, 162),
    *(264, 265, 262, 18, 58, 92),
    *(279, 194, 190, 186),
)
_PORTS: Final = {"iopl": 172, "ioperm": 173}
_PROCESSORS: Final = {
    "x86_64": _Processor(
        0xC000003E, True, 56, 41, _REFUSED | _PORTS | dict(zip(_NAMES, _X86_64, strict=True))
    ),
    "aarch64": _Processor(
        0xC00000B7, False, 220, 198, _REFUSED | dict(zip(_NAMES, _AARCH64, strict=True))
    ),
}


def refused_calls(machine: str) -> dict[str, int]:
    """Names and numbers of the calls that are refused whatever their arguments are."""
    return _PROCESSORS[machine].refused


def filter_program(machine: str) -> bytes | None:
    """The filter for `platform.machine()`; None for a processor whose numbers are unknown."""
    processor = _PROCESSORS.get(machine)
    if processor is None:
        return None
    program = [
        (_LOAD, 0, 0, _PROCESSOR),
        (_EQUAL, 1, 0, processor.audit),
        (_RETURN, 0, 0, _KILL),
        (_LOAD, 0, 0, _NUMBER),
    ]
    if processor.has_x32:
        program += [(_AT_LEAST, 0, 1, _X32_BIT), (_RETURN, 0, 0, _KILL)]
    # Its arguments are in memory, which no filter sees. Libraries then take clone.
    program += [(_EQUAL, 0, 1, _CLONE3), (_RETURN, 0, 0, _REFUSE | errno.ENOSYS)]
    for number in sorted(processor.refused.values()):
        program += [(_EQUAL, 0, 1, number), (_RETURN, 0, 0, _REFUSE | errno.EPERM)]
    program += [
        (_EQUAL, 0, 4, processor.clone),
        (_LOAD, 0, 0, _FIRST_ARGUMENT),
        (_ANY_BIT, 0, 1, _NAMESPACES),
        (_RETURN, 0, 0, _REFUSE | errno.EPERM),
        (_RETURN, 0, 0, _ALLOW),
        (_EQUAL, 0, len(_FAMILIES) + 2, processor.socket),
        (_LOAD, 0, 0, _FIRST_ARGUMENT),
    ]
    for index, family in enumerate(_FAMILIES):
        program.append((_EQUAL, len(_FAMILIES) - index, 0, family))
    program += [(_RETURN, 0, 0, _REFUSE | errno.EAFNOSUPPORT), (_RETURN, 0, 0, _ALLOW)]
    return b"".join(_INSTRUCTION.pack(*each) for each in program)
