"""What every driver must do. Written against the interface alone."""

import io
from uuid import uuid4

import pytest

from interns.runtime.driver import ArchiveFailed, ChatRefused, EndEvent, QuestionEvent
from tests.interns.runtime.bench import Bench, calls, read

# Whose disk belongs to a user of its own.
SANDBOXED = pytest.mark.parametrize("bench", ["sandboxed"], indirect=True)

pytestmark = [pytest.mark.timeout(120), pytest.mark.thorough]


@pytest.mark.parametrize("bench", ["plain", "scripted"], indirect=True)
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

    # Of who is gone, as of who was never begun, there is nothing.
    for nobody in (plan.intern_id, uuid4()):
        driver.destroy(nobody)
        driver.destroy(nobody)
        health = driver.health(nobody, wait_s=0.5)
        assert (health.ok, health.exited) == (False, True)
        assert not driver.stop(nobody)
        assert driver.find_agent(nobody) is None
        with pytest.raises(ArchiveFailed):
            driver.archive(nobody, io.BytesIO())


@SANDBOXED
def test_files_and_sessions_stay(bench: Bench) -> None:
    plan, _ = bench.boot()
    bench.says(calls("write_file", path="notes/a.txt", content="kept"), {"text": "Done."})
    _, leg = bench.turn(plan, "Write it down")
    assert leg.text == "Done."
    assert leg.end.usage is not None
    turns = bench.driver.read_conversation(plan.intern_id, "s")
    assert turns is not None
    assert [turn["text"] for turn in turns] == ["Write it down", "", "Done."]
    bench.driver.stop(plan.intern_id)
    assert bench.driver.read_conversation(plan.intern_id, "s") is None

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
    said = [m["content"] for m in asked if m["role"] == "user"]
    assert said == ["Write it down", "What does it say?"]

    # Put back on another intern's disk it is all there.
    heir = bench.plan()
    assert bench.driver.restore(heir.intern_id, io.BytesIO(first.getvalue())) == files
    copy = io.BytesIO()
    bench.driver.archive(heir.intern_id, copy)
    assert copy.getvalue() == first.getvalue()


@SANDBOXED
def test_questions(bench: Bench) -> None:
    plan, _ = bench.boot()
    ask = calls("ask_person", message="Which colour?", fields=[{"name": "colour"}])
    write = [calls("write_file", path=f"{name}.txt", content="red") for name in ("a", "b")]
    bench.says(ask, write[0], {"text": "Left."})
    run_id, leg = bench.turn(plan, "Paint", approval_mode="manual")
    asked = leg.question
    fields = [{"name": "colour", "type": "string", "required": True}]
    form = {"kind": "elicitation", "message": "Which colour?", "fields": fields}
    assert (asked.kind, asked.arguments) == ("elicitation", form)

    def find_refusal(question: QuestionEvent, content: str) -> str:
        with pytest.raises(ChatRefused) as refused:
            bench.answer(plan, run_id, question, content)
        return refused.value.reason

    # What is not acceptable leaves the question open, and another turn has to wait meanwhile.
    assert find_refusal(asked, '{"action":"accept","content":{}}') == "bad_request"
    with pytest.raises(ChatRefused) as busy:
        bench.begin(plan, "Me too", session_id="other")
    assert busy.value.reason == "busy"

    leg = bench.answer(plan, run_id, asked, '{"action":"accept","content":{"colour":"red"}}')
    permission = leg.question
    options = ["allow_once", "allow_always", "reject_once", "reject_always"]
    wanted = {"kind": "permission", "operation": "write_file: a.txt", "options": options}
    assert permission.arguments == wanted
    assert find_refusal(asked, '{"action":"decline"}') == "interaction_not_pending"
    leg = bench.answer(plan, run_id, permission, "reject_once")
    assert leg.text == "Left."
    assert leg.end == EndEvent(usage=leg.end.usage)

    bench.says(write[1], {"text": "Written."})
    run_id, leg = bench.turn(plan, "Again", approval_mode="manual")
    permission = leg.question
    assert bench.answer(plan, run_id, permission, "allow_once").text == "Written."
    assert find_refusal(permission, "allow_once") == "run_ended"
    # What was rejected was not done.
    bench.driver.stop(plan.intern_id)
    assert bench.driver.archive(plan.intern_id, io.BytesIO()) == 2


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


# For drivers of other modules. What they only hand on to the agent is tried at night.
ANY_DRIVER = pytest.mark.parametrize(
    "holds",
    [
        test_a_life,
        test_files_and_sessions_stay,
        pytest.param(test_questions, marks=pytest.mark.nightly),
        pytest.param(test_steering_and_cancelling, marks=pytest.mark.nightly),
    ],
)
