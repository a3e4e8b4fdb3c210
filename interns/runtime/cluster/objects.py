"""The objects that an intern is in a cluster. Each boot has a Pod with its Secret. The claim of its
disk and its NetworkPolicy last as long as the intern.

All Pods of an intern have one name, so that the cluster itself runs no two. A Pod is an agent's, or
the one that reads the disk while there is none.
"""

import base64
import json
from collections.abc import Iterable, Sequence
from typing import Final
from uuid import UUID

from django.conf import settings

from gateway.http.jsonio import JsonObject
from interns.runtime.cluster.inside import (
    AGENT_CONFIG,
    DISK,
    DOOR,
    DOOR_PORT,
    INSIDE,
    ORDERS_FILE,
    ORDERS_FOLDER,
    RUN,
    VOLUME,
)
from interns.runtime.sandbox import TMP_BYTES

APP: Final = "gateway-intern"
APP_LABEL: Final = "app.kubernetes.io/name"
_COMPONENT_LABEL: Final = "app.kubernetes.io/component"
_NAMESPACE_LABEL: Final = "kubernetes.io/metadata.name"
INTERN_LABEL: Final = "routing-gateway/intern"
BOOT_LABEL: Final = "routing-gateway/boot"
ROLE_LABEL: Final = "routing-gateway/role"
AGENT: Final = "agent"
READER: Final = "disk"
AGENTS: Final = f"{APP_LABEL}={APP},{ROLE_LABEL}={AGENT}"
USER: Final = 10001
# Of the same group, so that each can take away what the other left in a folder of both.
DOOR_USER: Final = 10002
STOP_S: Final = 5
_CODE: Final = ["python3", "-s", "-P", "-m"]
# Where clusters, clouds and their metadata are; the Internet is the rest. Azure's platform has an
# address that looks public.
_PRIVATE: Final = (
    *("0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8"),
    *("168.63.129.16/32", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24"),
    *("192.168.0.0/16", "198.18.0.0/15", "224.0.0.0/3"),
)
_INTERNET_PORTS: Final = (80, 443)


def name_object(intern_id: UUID) -> str:
    """The name of an intern's Pod, claim and policy."""
    return f"intern-{intern_id}"


def name_secret(intern_id: UUID, boot_id: UUID) -> str:
    """One for each boot: the cluster takes away an older one in its own time."""
    return f"intern-{intern_id}-{boot_id.hex[:12]}"


def select_intern(intern_id: UUID) -> str:
    return f"{INTERN_LABEL}={intern_id}"


def build_claim(intern_id: UUID) -> JsonObject:
    spec: JsonObject = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": str(settings.INTERN_DISK_BYTES)}},
    }
    if settings.INTERN_KUBERNETES_STORAGE_CLASS:
        spec["storageClassName"] = settings.INTERN_KUBERNETES_STORAGE_CLASS
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name_object(intern_id), "labels": _build_labels(intern_id)},
        "spec": spec,
    }


def build_policy(intern_id: UUID) -> JsonObject:
    """Only the gateway's Pods reach the intern, and it only those that serve requests. They are its
    way out, and look at what it asks for. `INTERN_EGRESS` adds names and the web of the Internet,
    and nothing of private networks."""
    callers, web = _select_gateway("web", "interns"), _select_gateway("web")
    port = "agents" if settings.INTERN_PORT else "http"
    egress = [{"to": [web], "ports": [{"protocol": "TCP", "port": port}]}]
    if settings.INTERN_EGRESS:
        names = {
            "namespaceSelector": {"matchLabels": {_NAMESPACE_LABEL: "kube-system"}},
            "podSelector": {"matchLabels": {"k8s-app": "kube-dns"}},
        }
        ports = [{"protocol": protocol, "port": 53} for protocol in ("UDP", "TCP")]
        egress.append({"to": [names], "ports": ports})
        internet = {"ipBlock": {"cidr": "0.0.0.0/0", "except": list(_PRIVATE)}}
        web_ports = [{"protocol": "TCP", "port": port} for port in _INTERNET_PORTS]
        egress.append({"to": [internet], "ports": web_ports})
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": name_object(intern_id), "labels": _build_labels(intern_id)},
        "spec": {
            "podSelector": {"matchLabels": {INTERN_LABEL: str(intern_id)}},
            "policyTypes": ["Ingress", "Egress"],
            "ingress": [{"from": [callers], "ports": [{"protocol": "TCP", "port": DOOR_PORT}]}],
            "egress": egress,
        },
    }


def _select_gateway(*components: str) -> JsonObject:
    """The gateway's Pods of these components."""
    namespace = settings.INTERN_KUBERNETES_GATEWAY_NAMESPACE
    chosen = {"key": _COMPONENT_LABEL, "operator": "In", "values": list(components)}
    return {
        "namespaceSelector": {"matchLabels": {_NAMESPACE_LABEL: namespace}},
        "podSelector": {"matchExpressions": [chosen]},
    }


def build_secret(intern_id: UUID, boot_id: UUID, pod: JsonObject, orders: JsonObject) -> JsonObject:
    """What only the door may read. It goes with its Pod."""
    content = base64.b64encode(json.dumps(orders).encode()).decode()
    owner = {
        "apiVersion": "v1",
        "kind": "Pod",
        "name": pod["metadata"]["name"],
        "uid": pod["metadata"]["uid"],
    }
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": name_secret(intern_id, boot_id),
            "labels": {**_build_labels(intern_id), BOOT_LABEL: str(boot_id)},
            "ownerReferences": [owner],
        },
        "type": "Opaque",
        "immutable": True,
        "data": {ORDERS_FILE: content},
    }


_AGENT_ENVIRONMENT: Final = [
    {"name": "HOME", "value": f"{DISK}/workspace"},
    {"name": "LANG", "value": "C.UTF-8"},
]


def build_agent_pod(
    intern_id: UUID, boot_id: UUID, *, aliases: Sequence[JsonObject] = ()
) -> JsonObject:
    """The agent, and beside it the door: it alone has the intern's key, and begins first.
    `aliases` are names that are known without asking."""
    door = _build_container(
        "door",
        [*_CODE, "interns.runtime.cluster.inside", "door"],
        mounts=[
            {"name": "orders", "mountPath": ORDERS_FOLDER, "readOnly": True},
            {"name": "door", "mountPath": f"{RUN}/{DOOR}"},
            {"name": "inside", "mountPath": f"{RUN}/{INSIDE}"},
        ],
        limits={"memory": "256Mi"},
        user=DOOR_USER,
    )
    door |= {
        "restartPolicy": "Always",
        "env": [_build_address_variable()],
        "ports": [{"name": "agent", "containerPort": DOOR_PORT}],
        "startupProbe": {
            "tcpSocket": {"port": DOOR_PORT},
            "periodSeconds": 1,
            "failureThreshold": 60,
        },
    }
    agent = _build_container(
        AGENT,
        [*_CODE, "interns.agent", AGENT_CONFIG],
        mounts=[
            {"name": "disk", "mountPath": VOLUME},
            {"name": "door", "mountPath": f"{RUN}/{DOOR}", "readOnly": True},
            {"name": "inside", "mountPath": f"{RUN}/{INSIDE}"},
            {"name": "tmp", "mountPath": "/tmp"},  # noqa: S108 - Its own, inside.
        ],
        limits={
            "memory": str(settings.INTERN_MEMORY_BYTES),
            "cpu": f"{round(settings.INTERN_CPUS * 1000)}m",
        },
    )
    agent |= {"workingDir": VOLUME, "env": _AGENT_ENVIRONMENT}
    pod = _build_pod(intern_id, boot_id, AGENT)
    if aliases:
        pod["spec"]["hostAliases"] = list(aliases)
    pod["spec"] |= {
        "initContainers": [door],
        "containers": [agent],
        "volumes": [
            *_build_common_volumes(intern_id, boot_id),
            {"name": "door", "emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}},
            {"name": "inside", "emptyDir": {"medium": "Memory", "sizeLimit": "4Mi"}},
            {"name": "tmp", "emptyDir": {"sizeLimit": str(TMP_BYTES)}},
        ],
    }
    return pod


def build_reader_pod(intern_id: UUID, boot_id: UUID, *, live_s: int) -> JsonObject:
    """What reads and writes the disk of an intern without an agent, and ends by itself."""
    reader = _build_container(
        READER,
        [*_CODE, "interns.runtime.cluster.inside", "disk"],
        mounts=[
            {"name": "disk", "mountPath": VOLUME},
            {"name": "orders", "mountPath": ORDERS_FOLDER, "readOnly": True},
        ],
        limits={"memory": "256Mi"},
    )
    reader |= {
        "env": [_build_address_variable()],
        "ports": [{"name": "disk", "containerPort": DOOR_PORT}],
        "readinessProbe": {"tcpSocket": {"port": DOOR_PORT}, "periodSeconds": 1},
    }
    pod = _build_pod(intern_id, boot_id, READER)
    pod["spec"] |= {
        "activeDeadlineSeconds": live_s,
        "containers": [reader],
        "volumes": _build_common_volumes(intern_id, boot_id),
    }
    return pod


def _build_labels(intern_id: UUID) -> JsonObject:
    return {APP_LABEL: APP, INTERN_LABEL: str(intern_id)}


def _build_pod(intern_id: UUID, boot_id: UUID, role: str) -> JsonObject:
    labels = {**_build_labels(intern_id), BOOT_LABEL: str(boot_id), ROLE_LABEL: role}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name_object(intern_id), "labels": labels},
        "spec": {
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": STOP_S,
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": USER,
                "runAsGroup": USER,
                "fsGroup": USER,
                "fsGroupChangePolicy": "OnRootMismatch",
                "seccompProfile": {"type": "RuntimeDefault"},
            },
        },
    }


def _build_container(
    name: str,
    command: list[str],
    *,
    mounts: Iterable[JsonObject],
    limits: JsonObject,
    user: int = USER,
) -> JsonObject:
    return {
        "name": name,
        "image": settings.INTERN_CONTAINER_IMAGE,
        "command": command,
        "securityContext": {
            "runAsUser": user,
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "resources": {"requests": {"cpu": "50m", "memory": "128Mi"}, "limits": limits},
        "volumeMounts": list(mounts),
    }


def _build_common_volumes(intern_id: UUID, boot_id: UUID) -> list[JsonObject]:
    return [
        {
            "name": "orders",
            # 0440: it belongs to the group of all that run here, and only the door has it.
            "secret": {"secretName": name_secret(intern_id, boot_id), "defaultMode": 0o440},
        },
        {"name": "disk", "persistentVolumeClaim": {"claimName": name_object(intern_id)}},
    ]


def _build_address_variable() -> JsonObject:
    return {"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}
