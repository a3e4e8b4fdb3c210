"""The kubernetes driver against a cluster of the tests: the conformance suite, and what only a
cluster has. It has not run on a real one."""

import base64
import io
import json
import tempfile
from collections.abc import Iterator
from ipaddress import ip_network
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest

from routing.simulator.testing import SimulatedUpstream
from tests.interns import cluster_node
from tests.interns.cluster import KINDS, Cluster, read_rights
from tests.interns.runtime import test_conformance as conformance
from tests.interns.runtime.bench import Bench, wait_until

if TYPE_CHECKING:
    from interns.runtime.cluster.driver import KubernetesDriver

pytest.importorskip("kubernetes", reason="the extra kubernetes is not installed")


@pytest.fixture
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="k") as folder:
        yield Path(folder)


@pytest.fixture
def cluster(folder: Path, request: pytest.FixtureRequest) -> Iterator[Cluster]:
    from routing.tools.sandbox import bubblewrap

    node = cluster_node.Node(folder) if hasattr(request, "param") else None
    if node and not bubblewrap.is_available():
        pytest.skip(f"no sandbox here: {bubblewrap.isolation().reason}")
    cluster = Cluster(folder, node)
    cluster.start()
    yield cluster
    cluster.stop()


@pytest.fixture
def driver(cluster: Cluster, settings: Any, runtime_home: Path) -> Iterator["KubernetesDriver"]:
    from interns.runtime.cluster.driver import KubernetesDriver

    settings.INTERN_KUBERNETES_CONFIG = cluster.config
    settings.INTERN_CONTAINER_IMAGE = "registry.example/gateway:1"
    driver = KubernetesDriver()
    yield driver
    driver.close()


@pytest.fixture
def bench(driver: "KubernetesDriver", simulator: SimulatedUpstream) -> Iterator[Bench]:
    bench = Bench(driver, simulator, f"intern-{uuid4().hex}")
    yield bench
    bench.clear()


def runs_pods(test: Any) -> Any:
    """For a test whose Pods really run."""
    with_node = pytest.mark.parametrize("cluster", ["node"], indirect=True)
    return with_node(pytest.mark.thorough(pytest.mark.timeout(300)(test)))


@runs_pods
@conformance.ANY_DRIVER
def test_it_conforms(bench: Bench, holds: Any) -> None:
    holds(bench)


@runs_pods
def test_what_commands_find_inside(bench: Bench) -> None:
    found = bench.look_inside("cat /run/orders/orders.json 2>&1", "env | grep -c sk-simulated")
    assert "orders.json: No such file" in found
    assert "\n0\n" in found


def names_of(cluster: Cluster) -> dict[str, list[str]]:
    return {kind: cluster.names(kind) for kind in KINDS}


def test_what_an_intern_is_and_what_is_left_of_it(bench: Bench, cluster: Cluster) -> None:
    plan = bench.plan()
    runtime = bench.driver.start(plan)
    name = f"intern-{plan.intern_id}"
    secret = f"{name}-{plan.boot_id.hex[:12]}"
    whole = {key: [name] for key in ("pods", "persistentvolumeclaims", "networkpolicies")}
    assert names_of(cluster) == {**whole, "secrets": [secret]}
    pod = cluster.find("pods", name)
    assert pod is not None
    assert pod["metadata"]["labels"]["routing-gateway/boot"] == str(plan.boot_id)
    assert runtime.facts["uid"] == pod["metadata"]["uid"]
    # The key is in the Secret alone, and that goes with the Pod.
    orders = cluster.find("secrets", secret)
    assert orders is not None
    assert [o["uid"] for o in orders["metadata"]["ownerReferences"]] == [pod["metadata"]["uid"]]
    told = json.loads(base64.b64decode(orders["data"]["orders.json"]))
    assert told["api_key"] == plan.api_key
    for secret_word in (plan.api_key, told["agent"]["token"]):
        assert secret_word not in json.dumps(pod)
    mounts = {
        c["name"]: {m["name"] for m in c["volumeMounts"]}
        for c in (*pod["spec"]["initContainers"], *pod["spec"]["containers"])
    }
    assert "orders" in mounts["door"]
    assert "orders" not in mounts["agent"]

    # Stopped, the disk stays; destroyed, nothing does.
    assert bench.driver.stop(plan.intern_id)
    assert names_of(cluster) == {**whole, "pods": [], "secrets": []}
    assert bench.driver.has_disk(plan.intern_id)
    # A claim that is about to go is not booted on.
    earlier = cluster.find("persistentvolumeclaims", name)
    cluster.delete("persistentvolumeclaims", name, {})
    bench.driver.start(bench.plan(plan.intern_id))
    claim = cluster.find("persistentvolumeclaims", name)
    assert earlier is not None
    assert claim is not None
    assert claim["metadata"]["uid"] != earlier["metadata"]["uid"]
    bench.driver.destroy(plan.intern_id)
    assert names_of(cluster) == {key: [] for key in (*whole, "secrets")}
    assert not bench.driver.has_disk(plan.intern_id)


def test_a_later_boot_waits_for_the_end_of_the_one_before(
    bench: Bench, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    from interns.runtime.cluster import driver as module
    from interns.runtime.driver import RuntimeFailed, StopFailed

    first = bench.plan()
    bench.driver.start(first)
    name = f"intern-{first.intern_id}"
    cluster.lost.add(name)
    # The wait for a Pod that never ends is over at once, then long enough.
    monkeypatch.setattr(module, "END_S", -7.5)
    with pytest.raises(StopFailed, match="its node may be gone"):
        bench.driver.stop(first.intern_id)
    with pytest.raises(RuntimeFailed):
        bench.driver.start(bench.plan(first.intern_id))
    [pod] = [o for o in cluster.created if o["kind"] == "Pod"]
    # Nothing was ended by force, and nothing began beside it.
    now = cluster.find("pods", name)
    assert now is not None
    assert now["metadata"]["uid"] == pod["metadata"]["uid"]
    assert now["metadata"]["deletionGracePeriodSeconds"] >= 1

    monkeypatch.setattr(module, "END_S", 30.0)
    cluster.lost.clear()
    cluster.end_pod(name)
    later = bench.plan(first.intern_id)
    bench.driver.start(later)
    # Whoever means the earlier boot ends nothing.
    assert not bench.driver.stop(first.intern_id, boot_id=first.boot_id)
    assert [r.boot_id for r in bench.driver.runtimes()] == [later.boot_id]


def test_two_that_begin_at_once_are_one(bench: Bench, cluster: Cluster) -> None:
    from interns.runtime.cluster import objects
    from interns.runtime.driver import StartFailed

    plan = bench.plan()
    driver: Any = bench.driver
    other_boot = uuid4()
    other = objects.build_agent_pod(plan.intern_id, other_boot)
    looked = driver.stop

    def begin_other(*given: Any, **more: Any) -> bool:
        stopped: bool = looked(*given, **more)
        cluster.create("pods", other)
        return stopped

    driver.stop = begin_other
    with pytest.raises(StartFailed, match="another runtime"):
        driver.start(plan)
    driver.stop = looked
    # The other one has no orders, as one whose worker died: it is not adopted, but replaced.
    same = bench.plan(plan.intern_id, boot_id=other_boot)
    driver.start(same)
    assert len(cluster.names("secrets")) == 1


def test_a_boot_comes_before_an_archive(
    bench: Bench, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    from interns.runtime.cluster import objects
    from interns.runtime.driver import ArchiveFailed

    driver: Any = bench.driver
    plan = bench.plan()

    def take_disk(plural: str) -> None:
        if plural == "pods":
            cluster.before_create = lambda plural: None
            cluster.create("pods", objects.build_reader_pod(plan.intern_id, uuid4(), live_s=60))

    cluster.before_create = take_disk
    driver.start(plan)
    assert [each.boot_id for each in driver.runtimes()] == [plan.boot_id]

    driver.stop(plan.intern_id)
    later = bench.plan(plan.intern_id)

    cluster.delete("networkpolicies", f"intern-{plan.intern_id}", {})

    def boot_beside(pod: Any) -> Any:
        assert len(cluster.names("networkpolicies")) == 1
        driver.start(later)
        raise ArchiveFailed("its Pod has gone")

    # A later boot comes while the disk is waited for.
    monkeypatch.setattr(driver, "_await_reader", boot_beside)
    with pytest.raises(ArchiveFailed, match="has gone"):
        driver.archive(plan.intern_id, io.BytesIO())
    assert [each.boot_id for each in driver.runtimes()] == [later.boot_id]


def test_without_a_secret_or_an_image_there_is_no_pod(
    bench: Bench, cluster: Cluster, settings: Any
) -> None:
    from interns.runtime.driver import ImageUnavailable, StartFailed

    cluster.refused["POST secrets"] = 403
    with pytest.raises(StartFailed, match="403: as the test wants it"):
        bench.driver.start(bench.plan())
    settings.INTERN_CONTAINER_IMAGE = ""
    with pytest.raises(ImageUnavailable):
        bench.driver.start(bench.plan())
    assert cluster.names("pods") == []


def test_changes_are_heard_and_not_asked_for(
    bench: Bench, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    from interns.runtime.cluster import pods
    from interns.runtime.driver import StopFailed

    # Two seconds between tries would only be waited for.
    monkeypatch.setattr(pods, "_PAUSE_S", 0.05)
    driver: Any = bench.driver
    plan = bench.plan()
    driver.start(plan)
    name = f"intern-{plan.intern_id}"
    # As web asks, which may only look.
    rights, cluster.rights = cluster.rights, read_rights("gateway-web")
    found = driver.find_agent(plan.intern_id)
    assert (found.address.host, found.address.port) == ("127.77.0.1", 8700)

    def asks() -> int:
        """Reads of the Pod that finding it took."""
        before = cluster.requests.count(("GET", f"pods/{name}"))
        assert driver.find_agent(plan.intern_id).address.host
        return cluster.requests.count(("GET", f"pods/{name}")) - before

    assert wait_until(lambda: asks() == 0)

    def send_nonsense() -> None:
        labels = {"app.kubernetes.io/name": "gateway-intern", "routing-gateway/role": "agent"}
        with cluster.changed:
            pod = {"kind": "Pod", "metadata": {"labels": labels}}
            cluster.events.append((cluster.version + 1, "MODIFIED", pod))
            cluster.version += 1
            cluster.changed.notify_all()

    # A server that has forgotten where it was, and one whose streams end, are listed anew.
    for break_off in (cluster.forget_history, cluster.close_streams, send_nonsense):
        break_off()
        cluster.set_status(name, podIP="127.77.0.2")
        assert wait_until(lambda: driver.find_agent(plan.intern_id).address.host == "127.77.0.2")
        cluster.set_status(name, podIP="127.77.0.1")
        assert wait_until(lambda: driver.find_agent(plan.intern_id).address.host == "127.77.0.1")
        assert wait_until(lambda: asks() == 0)
    # While the cluster is silent, who ran when it was last heard is known.
    cluster.refused["GET pods"] = 503
    asked = cluster.requests.count(("GET", "pods"))
    cluster.close_streams()
    assert wait_until(lambda: cluster.requests.count(("GET", "pods")) > asked + 2)
    assert driver.find_agent(plan.intern_id).address.host == "127.77.0.1"
    assert driver.health(uuid4()).is_unknown
    cluster.refused.clear()
    # An end is certain, and says why.
    ended = {"terminated": {"exitCode": 137, "reason": "OOMKilled"}}
    cluster.set_status(name, phase="Failed", containerStatuses=[{"name": "agent", "state": ended}])
    assert wait_until(lambda: driver.health(plan.intern_id).exited)
    assert "OOMKilled, status 137" in driver.health(plan.intern_id).detail
    assert driver.find_agent(plan.intern_id) is None
    assert driver.runtimes() == []
    with pytest.raises(StopFailed, match="the Role allows no DELETE"):
        driver.stop(plan.intern_id)
    cluster.rights = rights


def test_a_cluster_that_does_not_answer(bench: Bench, cluster: Cluster) -> None:
    from interns.runtime.driver import ArchiveFailed, RuntimeFailed, StartFailed, StopFailed

    plan = bench.plan()
    bench.driver.start(plan)
    for command in ("GET", "POST", "DELETE"):
        for plural in KINDS:
            cluster.refused[f"{command} {plural}"] = 503
    with pytest.raises(StartFailed):
        bench.driver.start(plan)
    with pytest.raises(StopFailed):
        bench.driver.stop(plan.intern_id)
    with pytest.raises(RuntimeFailed):
        bench.driver.runtimes()
    with pytest.raises(ArchiveFailed):
        bench.driver.restore(plan.intern_id, io.BytesIO())
    # Nobody can tell, so it has not ended.
    health = bench.driver.health(uuid4())
    assert (health.ok, health.exited) == (False, False)
    assert bench.driver.log_tail(plan.intern_id) == []
    cluster.refused.clear()


def test_the_doctor_looks_for_interns_among_proxies(
    bench: Bench, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from gateway.doctor.findings import Question
    from interns.runtime.cluster import examination

    def examine(network: str) -> list[str]:
        settings.TRUSTED_PROXIES = (ip_network(network),)
        return [each.state for each in examination.examine_proxies(Question())]

    # The driver of this bench, which no setting names.
    monkeypatch.setattr(examination, "current_driver", lambda: bench.driver)
    assert examine("127.0.0.0/8") == ["unknown"]
    bench.driver.start(bench.plan())
    assert (examine("127.0.0.0/8"), examine("192.0.2.1/32")) == (["problem"], ["ok"])


def test_of_a_log_its_end_is_read(bench: Bench, cluster: Cluster) -> None:
    from interns.runtime.driver import LOG_BYTES_READ

    class Log:
        def read_log(self, name: str, lines: int) -> bytes:
            return b"x" * (2 * LOG_BYTES_READ) + b"\nlast"

    cluster.node = Log()
    first, last = bench.driver.log_tail(uuid4())
    assert (len(first), last) == (LOG_BYTES_READ - 5, "last")
