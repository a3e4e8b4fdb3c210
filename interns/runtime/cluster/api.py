"""The few calls to a cluster that the driver makes, over the official client.

Objects go in and come out as JSON. Of thousands of fields a dozen are read, and a Pod as objects of
the client takes milliseconds.
"""

from collections.abc import Callable, Iterator
from typing import Any, Final

import urllib3
from django.conf import settings
from kubernetes import client, config
from kubernetes.client.exceptions import ApiException

from gateway.http.errors import MalformedJson
from gateway.http.jsonio import JsonObject, loads
from interns.runtime.driver import LOG_BYTES_READ

CONNECT_S: Final = 3.0
ANSWER_S: Final = 10.0
_PIECE_BYTES: Final = 65_536
# Longer than the server keeps a stream of changes that says nothing.
_GRACE_S: Final = 10.0


class ClusterFailed(Exception):
    """The cluster's API could not be reached, or refused."""


class ObjectMissing(ClusterFailed):
    """There is no object of that name."""


class ObjectConflict(ClusterFailed):
    """There is one of that name already, or another one by now."""


class HistoryGone(ClusterFailed):
    """What changed since that version is not known any more: list anew."""


class ClusterApi:
    """One namespace of the cluster of `INTERN_KUBERNETES_CONFIG`, else of the one that this process
    runs in. Every call raises `ClusterFailed`."""

    def __init__(self) -> None:
        self.namespace: str = settings.INTERN_KUBERNETES_NAMESPACE
        made = client.Configuration()
        try:
            if settings.INTERN_KUBERNETES_CONFIG:
                config.load_kube_config(
                    settings.INTERN_KUBERNETES_CONFIG,
                    client_configuration=made,
                    persist_config=False,
                )
            else:
                config.load_incluster_config(made)
        except (config.ConfigException, OSError) as error:
            raise ClusterFailed(f"no cluster is known: {error}") from error
        made.retries = False
        self._client = client.ApiClient(made)
        core, network = client.CoreV1Api(self._client), client.NetworkingV1Api(self._client)
        self._pods: Any = core.list_namespaced_pod
        self._log: Any = core.read_namespaced_pod_log
        self._calls: dict[str, tuple[Any, Any, Any, Any]] = {
            "Pod": (
                *(core.read_namespaced_pod, core.create_namespaced_pod),
                *(core.delete_namespaced_pod, None),
            ),
            "Secret": (
                *(core.read_namespaced_secret, core.create_namespaced_secret),
                *(core.delete_namespaced_secret, core.delete_collection_namespaced_secret),
            ),
            "PersistentVolumeClaim": (
                core.read_namespaced_persistent_volume_claim,
                core.create_namespaced_persistent_volume_claim,
                core.delete_namespaced_persistent_volume_claim,
                None,
            ),
            "NetworkPolicy": (
                network.read_namespaced_network_policy,
                network.create_namespaced_network_policy,
                network.delete_namespaced_network_policy,
                None,
            ),
        }

    def close(self) -> None:
        self._client.close()

    def read(self, kind: str, name: str) -> JsonObject | None:
        """None where there is none."""
        try:
            return self._ask(self._calls[kind][0], name, self.namespace)
        except ObjectMissing:
            return None

    def create(self, body: JsonObject) -> JsonObject:
        """The object as it is now. Raises `ObjectConflict` where there is one of its name."""
        return self._ask(self._calls[body["kind"]][1], self.namespace, body)

    def delete(
        self, kind: str, name: str, *, uid: str | None = None, grace_s: int | None = None
    ) -> bool:
        """Whether there was one. Raises `ObjectConflict` where it is another one than `uid`."""
        body: JsonObject = {"propagationPolicy": "Background"}
        if uid is not None:
            body["preconditions"] = {"uid": uid}
        if grace_s is not None:
            body["gracePeriodSeconds"] = grace_s
        try:
            self._ask(self._calls[kind][2], name, self.namespace, body=body)
        except ObjectMissing:
            return False
        return True

    def delete_secrets(self, selector: str) -> None:
        """All that have these labels."""
        self._ask(self._calls["Secret"][3], self.namespace, label_selector=selector)

    def list_pods(self, selector: str) -> tuple[list[JsonObject], str]:
        """The Pods of these labels, and the version of the list."""
        found = self._ask(self._pods, self.namespace, label_selector=selector)
        return found["items"], found["metadata"]["resourceVersion"]

    def watch_pods(
        self, version: str, *, wait_s: int, selector: str = "", name: str = ""
    ) -> Iterator[JsonObject]:
        """The changes since that version as `{type, object}`, as they come, until `wait_s` is over.
        Raises `HistoryGone` too."""
        only = {"label_selector": selector} if selector else {}
        if name:
            only["field_selector"] = f"metadata.name={name}"
        reply = self._send(
            lambda: self._pods(
                self.namespace,
                **only,
                resource_version=version,
                watch=True,
                allow_watch_bookmarks=True,
                timeout_seconds=wait_s,
                _preload_content=False,
                _request_timeout=(CONNECT_S, wait_s + _GRACE_S),
            )
        )
        try:
            yield from map(_read_event, _read_lines(reply))
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise ClusterFailed(f"the cluster's changes broke off: {error}") from error
        finally:
            reply.close()

    def read_log(self, pod: str, container: str, lines: int) -> bytes:
        """So many lines of its end, and at most `LOG_BYTES_READ`."""
        options = {"container": container, "tail_lines": lines, "_preload_content": False}
        limits = {"_request_timeout": (CONNECT_S, ANSWER_S)}
        reply = self._send(lambda: self._log(pod, self.namespace, **options, **limits))
        tail: bytes = self._send(lambda: _read_tail(reply))
        return tail

    def _ask(self, call: Any, *arguments: object, **options: object) -> JsonObject:
        reply = self._send(
            lambda: call(
                *arguments,
                **options,
                _preload_content=False,
                _request_timeout=(CONNECT_S, ANSWER_S),
            )
        )
        content = self._send(lambda: reply.data)
        try:
            found = loads(content)
        except MalformedJson as error:
            raise ClusterFailed("the cluster's answer is no JSON") from error
        if not isinstance(found, dict):
            raise ClusterFailed("the cluster's answer is no object")
        return found

    def _send(self, send: Callable[[], Any]) -> Any:
        try:
            return send()
        except ApiException as error:
            kind = {404: ObjectMissing, 409: ObjectConflict, 410: HistoryGone}.get(error.status)
            why = _read_message(error.body) or error.reason
            raise (kind or ClusterFailed)(f"{error.status}: {why}"[:500]) from error
        except (urllib3.exceptions.HTTPError, config.ConfigException, OSError) as error:
            # The token's file is read again now and then.
            text = f"the cluster cannot be reached: {type(error).__name__}"
            raise ClusterFailed(text) from error


def _read_message(body: str | None) -> str:
    """What a refusal says of itself."""
    try:
        return str(loads((body or "").encode())["message"])
    except (MalformedJson, LookupError, TypeError):
        return ""


def _read_tail(reply: Any) -> bytes:
    # The API's own bound in bytes keeps the beginning.
    tail = b""
    try:
        for piece in reply.stream(_PIECE_BYTES):
            tail = (tail + piece)[-LOG_BYTES_READ:]
    finally:
        reply.close()
    return tail


def _read_lines(reply: Any) -> Iterator[bytes]:
    rest = b""
    for piece in reply.stream(amt=None, decode_content=False):
        *lines, rest = (rest + piece).split(b"\n")
        yield from filter(None, lines)


def _read_event(line: bytes) -> JsonObject:
    try:
        event: JsonObject = loads(line)
        if event["type"] == "ERROR":
            kind = HistoryGone if event["object"].get("code") == 410 else ClusterFailed
            raise kind(str(event["object"].get("message", "")))
    except (MalformedJson, LookupError, TypeError, AttributeError) as error:
        raise ClusterFailed("a change of the cluster is none") from error
    return event
