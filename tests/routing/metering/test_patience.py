"""Waiting without a timer each: under gevent, so in a process of its own."""

import subprocess
import sys

from tests.support.manage import PROJECT

PROGRAM = """
from gevent import monkey
monkey.patch_all()
import os, time, gevent
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "gateway.settings")
from routing.metering.tickets import Patience, Ticket

patience = Patience()

def timed(one, limit_s):
    began = time.monotonic()
    return patience.wait(one, limit_s), time.monotonic() - began

# An outcome that comes wakes its waiter, whatever others wait for.
early, late, left = (Ticket(None) for _ in range(3))
waits = [gevent.spawn(timed, early, 30), gevent.spawn(timed, late, 0.2)]
gevent.sleep(0)
early.finish(True)
gevent.joinall(waits, timeout=10, raise_error=True)
assert waits[0].value[0] is True and waits[0].value[1] < 5
assert waits[1].value[0] is False and 0.2 <= waits[1].value[1] < 5

# One that is there already is not waited for; one that comes too late wakes nobody twice.
assert timed(early, 30)[0] is True
late.finish(True)

# A waiter that is killed leaves, and its ticket may still come to its end.
leaver = gevent.spawn(timed, left, 30)
gevent.sleep(0)
leaver.kill(timeout=10)
assert leaver.ready()
left.finish(True)

# After a pause in which nobody waited, somebody is looked after again.
assert timed(Ticket(None), 0.2)[0] is False
gevent.sleep(0.3)
assert timed(Ticket(None), 0.2)[0] is False
print("done")
"""


def test_every_waiter_wakes_in_its_time() -> None:
    program = [sys.executable, "-c", PROGRAM]
    ended = subprocess.run(program, cwd=PROJECT, capture_output=True, text=True, timeout=60)

    assert (ended.stdout, ended.returncode) == ("done\n", 0), ended.stderr
