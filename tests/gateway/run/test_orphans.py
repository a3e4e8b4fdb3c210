"""Who loses a parent below the supervisor is ended by it."""

import subprocess
import sys

import pytest

# A process that hears no SIGTERM, begun by one that ends at once.
ADOPTING = """
import os, signal, subprocess, sys, time
from gateway.run import orphans

orphans.adopt()
begin = 'trap "" TERM; (while :; do sleep 1; done) >&- 2>&- & echo $!'
begun = subprocess.run(["sh", "-c", begin], stdout=subprocess.PIPE, check=True)
orphans.reap(())
orphans.end(0.2, time.sleep)
print(os.path.exists(f"/proc/{int(begun.stdout)}"))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="other systems hand no orphans on")
def test_an_orphan_that_hears_no_sigterm_is_killed_and_reaped() -> None:
    done = subprocess.run([sys.executable, "-c", ADOPTING], stdout=subprocess.PIPE, check=True)
    assert done.stdout == b"False\n"
