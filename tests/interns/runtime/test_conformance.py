"""What every driver must do. Written against the interface alone."""

import io
from uuid import uuid4

import pytest

from interns.runtime.driver import ArchiveFailed, ChatRefused, Ended
from tests.interns.runtime.bench import Bench, calls, read

EVERY_DRIVER = pytest.mark.parametrize("bench", ["plain", "sandboxed", "scripted"], indirect=True)
WITH_AGENT = pytest.mark.parametrize("bench", ["plain", "sandboxed"], indirect=True)

pytestmark = [pytest.mark.timeout(120), pytest.mark.thorough]


@EVERY_DRIVER
def test_a_life(bench: Bench) -> None:
    driver = bench.driver
    plan, runtime = bench.boot()
    assert (runtime.intern_id, runtime.boot_id) == (plan.intern_id, plan.boot_id)
    assert "sk-simulated" not in str(runtime.facts)
    assert [(r.intern_id, r.boot_id) for r in driver.runtimes()] == [(plan.intern_id, plan.boot_id)]
    assert driver.log_tail(plan.intern_id)

    # The same boot again is the same runtime, another boot takes its place.
    assert driver.start(plan).facts == runtime.facts
    later, _ = bench.boot(plan.intern_id)
    assert [r.boot_id for r in driver.runtimes()] == [later.boot_id]
    assert driver.health(plan.intern_id, boot_id=plan.boot_id).exited

    # Who means an earlier boot stops nothing.
    assert not driver.stop(plan.intern_id, boot_id=plan.boot_id)
    assert driver.health(plan.intern_id).ok
    assert driver.stop(plan.intern_id, boot_id=later.boot_id)
    assert not driver.stop(plan.intern_id)
    health = driver.health(plan.intern_id, boot_id=later.boot_id)
    assert (health.ok, health.exited) == (False, True)
    assert driver.runtimes() == []

    driver.destroy(plan.intern_id)
    driver.destroy(plan.intern_id)
    with pytest.raises(ArchiveFailed):
        driver.archive(plan.intern_id, io.BytesIO())


@EVERY_DRIVER
def test_who_was_never_begun(bench: Bench) -> None:
    driver, nobody = bench.driver, uuid4()
    health = driver.health(nobody, wait_s=0.5)
    assert (health.ok, health.exited) == (False, True)
    assert not driver.stop(nobody)
    assert driver.place(nobody) is None
    assert driver.runtimes() == []
    with pytest.raises(ArchiveFailed):
        driver.archive(nobody, io.BytesIO())
    driver.destroy(nobody)


@WITH_AGENT
def test_files_and_sessions_stay(bench: Bench) -> None:
    plan, _ = bench.boot()
    bench.says(calls("write_file", path="notes/a.txt", content="kept"), {"text": "Done."})
    _, leg = bench.turn(plan, "Write it down")
    assert leg.text == "Done."
    assert leg.end.usage is not None
    bench.driver.stop(plan.intern_id)

    first, again = io.BytesIO(), io.BytesIO()
    files = bench.driver.archive(plan.intern_id, first)
    assert bench.driver.archive(plan.intern_id, again) == files == 2
    assert first.getvalue() == again.getvalue()

    # Resumed, it still knows what was said and finds its file.
    later, _ = bench.boot(plan.intern_id)
    bench.says(calls("read_file", path="notes/a.txt"), {"text": "It says kept."})
    bench.turn(later, "What does it say?")
    assert list(bench.results())[-1] == "kept"
    asked = bench.simulator.requests(bench.persona)[-1]["body"]["messages"]
    assert [m["content"] for m in asked if m["role"] == "user"] == [
        "Write it down",
        "What does it say?",
    ]

    # Put back on another intern's disk it is all there.
    heir = bench.plan()
    assert bench.driver.restore(heir.intern_id, io.BytesIO(first.getvalue())) == files
    copy = io.BytesIO()
    bench.driver.archive(heir.intern_id, copy)
    assert copy.getvalue() == first.getvalue()


@WITH_AGENT
def test_questions(bench: Bench) -> None:
    plan, _ = bench.boot()
    ask = calls("ask_person", message="Which colour?", fields=[{"name": "colour"}])
    bench.says(ask, calls("write_file", path="c.txt", content="red"), {"text": "Written."})
    run_id, leg = bench.turn(plan, "Paint", approval_mode="manual")
    asked = leg.question
    assert asked.kind == "elicitation"
    assert asked.arguments == {
        "kind": "elicitation",
        "message": "Which colour?",
        "fields": [{"name": "colour", "type": "string", "required": True}],
    }
    # What is not acceptable leaves the question open.
    with pytest.raises(ChatRefused) as refused:
        bench.answer(plan, run_id, asked, '{"action":"accept","content":{}}')
    assert refused.value.reason == "bad_request"
    # Another turn has to wait meanwhile.
    with pytest.raises(ChatRefused) as refused:
        bench.begin(plan, "Me too", session_id="other")
    assert refused.value.reason == "busy"

    leg = bench.answer(plan, run_id, asked, '{"action":"accept","content":{"colour":"red"}}')
    permission = leg.question
    assert permission.arguments == {
        "kind": "permission",
        "operation": "write_file: c.txt",
        "options": ["allow_once", "allow_always", "reject_once", "reject_always"],
    }
    with pytest.raises(ChatRefused) as refused:
        bench.answer(plan, run_id, asked, '{"action":"decline"}')
    assert refused.value.reason == "interaction_not_pending"
    leg = bench.answer(plan, run_id, permission, "allow_once")
    assert leg.text == "Written."
    assert leg.end == Ended(usage=leg.end.usage)
    with pytest.raises(ChatRefused) as refused:
        bench.answer(plan, run_id, permission, "allow_once")
    assert refused.value.reason == "run_ended"


@WITH_AGENT
def test_steering_and_cancelling(bench: Bench) -> None:
    plan, _ = bench.boot()
    gate = f"g{uuid4().hex}"
    bench.says({"gate": gate, **calls("list_files")}, {"text": "Both done."})
    run_id, stream = bench.begin(plan, "First this")
    bench.simulator.wait_gate(gate)
    bench.driver.steer(plan.intern_id, run_id, "And that")
    bench.simulator.open_gate(gate)
    assert read(stream).text == "Both done."
    said = bench.simulator.requests(bench.persona)[-1]["body"]["messages"]
    assert [m["content"] for m in said if m["role"] == "user"] == ["First this", "And that"]

    held = f"g{uuid4().hex}"
    bench.says({"gate": held, "text": "Never said"})
    run_id, stream = bench.begin(plan, "Wait")
    bench.simulator.wait_gate(held)
    assert bench.driver.cancel(plan.intern_id, run_id)
    leg = read(stream)
    assert leg.end.reason == "run_ended"
    assert bench.driver.cancel(plan.intern_id, run_id)
    bench.simulator.open_gate(held)

    # It takes the next turn at once.
    bench.says({"text": "Here."})
    assert bench.turn(plan, "Are you there?")[1].text == "Here."
