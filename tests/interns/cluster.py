"""A cluster for tests. Its API server keeps objects in memory and reports what changes. Its node
runs Pods as processes of this machine in mounts of their own. It is no Kubernetes: what it knows of
one is what the driver asks, checked against the models of the official client."""

import copy
import json
import threading
import time
from collections.abc import Callable, Iterator
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit
from uuid import uuid4

import yaml

from tests.support.local_site import SiteHandler
from tests.support.manage import PROJECT

KINDS = {
    "pods": "V1Pod",
    "secrets": "V1Secret",
    "persistentvolumeclaims": "V1PersistentVolumeClaim",
    "networkpolicies": "V1NetworkPolicy",
}
TOKEN = "token-of-the-service-account"
Object = dict[str, Any]


class Refused(Exception):
    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class Cluster:
    """One namespace. `node` runs Pods; without one they run as soon as they have their Secret."""

    def __init__(self, folder: Path, node: Any = None) -> None:
        self.folder, self.node = folder, node
        self.changed = threading.Condition()
        self.objects: dict[tuple[str, str], Object] = {}
        self.events: list[tuple[int, str, Object]] = []
        self.requests: list[tuple[str, str]] = []
        self.version = self.oldest = self.closings = 0
        self.created: list[Object] = []
        # Names of Pods whose node does not answer: they never end.
        self.lost: set[str] = set()
        self.refused: dict[str, int] = {}
        self.rights = read_rights("gateway-interns")
        # Called with the kind of what is to be created, before it is.
        self.before_create: Callable[[str], None] = lambda plural: None
        handler = type("Handler", (_Handler,), {"site": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))

    @property
    def config(self) -> str:
        return str(self.folder / "kubeconfig")

    def start(self) -> None:
        host = f"http://127.0.0.1:{self._server.server_port}"
        named = {
            "clusters": [{"name": "c", "cluster": {"server": host}}],
            "users": [{"name": "u", "user": {"token": TOKEN}}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        }
        head = {"apiVersion": "v1", "kind": "Config", "current-context": "x"}
        Path(self.config).write_text(yaml.safe_dump(head | named))
        self._thread.start()

    def stop(self) -> None:
        self.close_streams()
        for name in self.names("pods"):
            self.lost.discard(name)
            self.delete("pods", name, {})
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    # --- What a test does -------------------------------------------------------------------------

    def names(self, plural: str) -> list[str]:
        with self.changed:
            return sorted(name for kind, name in self.objects if kind == plural)

    def find(self, plural: str, name: str) -> Object | None:
        with self.changed:
            return copy.deepcopy(self.objects.get((plural, name)))

    def set_status(self, name: str, **status: Any) -> None:
        with self.changed:
            pod = self.objects.get(("pods", name))
            if pod is not None:
                pod["status"] = {**pod.get("status", {}), **status}
                self._tell("MODIFIED", pod)

    def forget_history(self) -> None:
        """As a server that has compacted its store: whoever goes on from before hears 410."""
        with self.changed:
            self.version += 1
            self.oldest = self.version

    def close_streams(self) -> None:
        with self.changed:
            self.closings += 1
            self.changed.notify_all()

    def end_pod(self, name: str) -> None:
        """The node says that all of it has ended."""
        with self.changed:
            pod = self.objects.pop(("pods", name), None)
            if pod is None:
                return
            self._tell("DELETED", pod)
            for key, each in list(self.objects.items()):
                owners = each["metadata"].get("ownerReferences", ())
                if any(owner["uid"] == pod["metadata"]["uid"] for owner in owners):
                    del self.objects[key]

    # --- What the API does ------------------------------------------------------------------------

    def create(self, plural: str, body: Object) -> Object:
        check_fields(KINDS[plural], body)
        with self.changed:
            name = body["metadata"]["name"]
            if (plural, name) in self.objects:
                raise Refused(409, f'{plural} "{name}" already exists')
            made = copy.deepcopy(body)
            made["metadata"] |= {"uid": str(uuid4()), "namespace": "gateway-interns"}
            self.created.append(copy.deepcopy(made))
            if plural == "pods":
                made["status"] = {"phase": "Pending"}
            self.objects[plural, name] = made
            self._tell("ADDED", made)
            if plural == "pods" and self.node is not None:
                threading.Thread(target=self.node.run, args=(self, made), daemon=True).start()
            self._run_ready()
            return copy.deepcopy(made)

    def _run_ready(self) -> None:
        """Without a node: what has its Secret and its claim runs."""
        for (plural, name), pod in list(self.objects.items()):
            if plural == "pods" and self.node is None and pod["status"]["phase"] == "Pending":
                wanted = [(v["secret"]["secretName"],) for v in volumes(pod, "secret")]
                if all(("secrets", *each) in self.objects for each in wanted):
                    self.set_status(name, phase="Running", podIP="127.77.0.1")

    def delete(self, plural: str, name: str, options: Object) -> None:
        with self.changed:
            found = self.objects.get((plural, name))
            if found is None:
                raise Refused(404, f'{plural} "{name}" not found')
            wanted = options.get("preconditions", {}).get("uid")
            if wanted not in (None, found["metadata"]["uid"]):
                raise Refused(409, "the UID in the precondition is another one")
            if plural not in ("pods", "persistentvolumeclaims"):
                del self.objects[plural, name]
                return
            if "deletionTimestamp" not in found["metadata"]:
                found["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
                if plural != "pods":
                    return
                grace = options.get("gracePeriodSeconds", 5)
                found["metadata"]["deletionGracePeriodSeconds"] = grace
                self._tell("MODIFIED", found)
            if plural == "pods" and self.node is None and name not in self.lost:
                self.end_pod(name)

    def release_claim(self, name: str) -> None:
        """Its finalizer goes, once somebody has seen that it is deleted."""
        with self.changed:
            claim = self.objects.get(("persistentvolumeclaims", name))
            if claim is not None and "deletionTimestamp" in claim["metadata"]:
                del self.objects["persistentvolumeclaims", name]

    def list(self, plural: str, query: dict[str, str]) -> Object:
        with self.changed:
            found = [o for (kind, _), o in self.objects.items() if kind == plural]
            items = [copy.deepcopy(each) for each in found if matches(each, query)]
            return {"items": items, "metadata": {"resourceVersion": str(self.version)}}

    def watch(self, query: dict[str, str]) -> Iterator[Object | None]:
        """Changes of Pods; None says that nothing did for a while."""
        sent, until = int(query["resourceVersion"]), time.monotonic() + int(query["timeoutSeconds"])
        closings = self.closings
        while time.monotonic() < until and self.closings == closings:
            with self.changed:
                if sent < self.oldest:
                    gone = {"kind": "Status", "code": 410, "message": "too old resource version"}
                    yield {"type": "ERROR", "object": gone}
                    return
                fresh = [event for event in self.events if event[0] > sent]
                if not fresh:
                    self.changed.wait(min(0.5, max(0.0, until - time.monotonic())))
            for version, kind, pod in fresh:
                sent = version
                if matches(pod, query):
                    yield {"type": kind, "object": pod}
            if not fresh:
                yield None

    def _tell(self, kind: str, found: Object) -> None:
        self.version += 1
        found["metadata"]["resourceVersion"] = str(self.version)
        if found["kind"] == "Pod":
            self.events.append((self.version, kind, copy.deepcopy(found)))
        self.changed.notify_all()


def read_rights(name: str) -> set[tuple[str, str]]:
    """What a Role that `deploy/` ships allows: resources, each with a verb."""
    file = PROJECT / "deploy" / "kubernetes-interns" / "rights.yaml"
    objects = {(o["kind"], o["metadata"]["name"]): o for o in yaml.safe_load_all(file.read_text())}
    role = objects["Role", name]
    return {
        (resource, verb)
        for rule in role["rules"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def find_right(command: str, words: list[str], query: dict[str, str]) -> tuple[str, str]:
    """The resource of a request, and its verb as roles name it."""
    is_one = len(words) > 1
    verbs = {
        "POST": "create",
        "DELETE": "delete" if is_one else "deletecollection",
        "GET": "watch" if "watch" in query else "get" if is_one else "list",
    }
    return "/".join([words[0], *words[2:]]), verbs[command]


def volumes(pod: Object, kind: str) -> list[Object]:
    return [each for each in pod["spec"]["volumes"] if kind in each]


def matches(found: Object, query: dict[str, str]) -> bool:
    labels = found["metadata"].get("labels", {})
    wanted = [each.split("=") for each in query.get("labelSelector", "").split(",") if each]
    name = query.get("fieldSelector", "").removeprefix("metadata.name=")
    has_name = not name or found["metadata"]["name"] == name
    return has_name and all(labels.get(key) == value for key, value in wanted)


def check_fields(model: str, body: Object) -> None:
    """As strict as an API server: a field that there is not is refused."""
    from kubernetes import client

    known = client.ApiClient()
    read = getattr(client, model).from_dict(body)
    again = known.sanitize_for_serialization(read)
    if again != body:
        raise Refused(400, f"strict decoding error: {json.dumps(body)} is not {json.dumps(again)}")


class _Handler(SiteHandler):
    site: Cluster

    def _handle(self) -> None:
        url = urlsplit(self.path)
        query = {key: values[0] for key, values in parse_qs(url.query).items()}
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))) or b"{}")
        words = url.path.split("/namespaces/gateway-interns/")[-1].split("/")
        cluster, plural = self.site, words[0]
        cluster.requests.append((self.command, "/".join(words)))
        try:
            if self.headers.get("Authorization") != f"Bearer {TOKEN}":
                raise Refused(401, "Unauthorized")
            if find_right(self.command, words, query) not in cluster.rights:
                raise Refused(403, f"the Role allows no {self.command} {url.path}")
            if status := cluster.refused.get(f"{self.command} {plural}"):
                raise Refused(status, "as the test wants it")
            if query.get("watch") == "true":
                self._stream(cluster.watch(query))
            elif len(words) == 3:
                log = cluster.node.read_log(words[1], int(query["tailLines"]))
                self.answer(log, Content_Type="text/plain")
            else:
                self._answer_json(self._carry_out(words, query, body))
        except Refused as refused:
            said = {"kind": "Status", "code": refused.status, "message": str(refused)}
            self._answer_json(said, status=refused.status)
        except OSError:
            self.close_connection = True

    do_GET = do_POST = do_DELETE = _handle

    def _carry_out(self, words: list[str], query: dict[str, str], body: Object) -> Object:
        cluster, plural = self.site, words[0]
        if self.command == "POST":
            cluster.before_create(plural)
            return cluster.create(plural, body)
        if self.command == "DELETE":
            found = cluster.list(plural, query)["items"] if len(words) == 1 else []
            for name in [each["metadata"]["name"] for each in found] or words[1:]:
                cluster.delete(plural, name, body)
            return {"kind": "Status", "status": "Success"}
        if len(words) == 1:
            return cluster.list(plural, query)
        one = cluster.find(plural, words[1])
        if plural == "persistentvolumeclaims":
            cluster.release_claim(words[1])
        if one is None:
            raise Refused(404, f'{plural} "{words[1]}" not found')
        return one

    def _stream(self, events: Iterator[Object | None]) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for event in events:
            if event is not None:
                line = json.dumps(event).encode() + b"\n"
                self.wfile.write(b"%x\r\n%b\r\n" % (len(line), line))
        self.wfile.write(b"0\r\n\r\n")

    def _answer_json(self, value: Object, *, status: int = 200) -> None:
        self.answer(json.dumps(value).encode(), status=status, Content_Type="application/json")
