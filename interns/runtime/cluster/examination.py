"""What the doctor says of a gateway whose interns are Pods."""

from collections.abc import Iterator
from ipaddress import ip_address
from typing import cast

from django.conf import settings

from gateway.doctor.findings import Finding, Question
from interns.runtime.cluster.driver import KubernetesDriver
from interns.runtime.cluster.objects import AGENTS
from interns.runtime.driver import current_driver

_SUBJECT = "proxies"


def examine_proxies(question: Question) -> Iterator[Finding]:
    """Whether an intern could write the header that says where a request comes from. Raises
    `ClusterFailed`."""
    pods, _ = cast(KubernetesDriver, current_driver()).api.list_pods(AGENTS)
    addresses = [ip_address(pod["status"]["podIP"]) for pod in pods if "podIP" in pod["status"]]
    if not addresses:
        yield Finding(_SUBJECT, "unknown", "no intern has an address that could be compared")
        return
    networks = settings.TRUSTED_PROXIES
    wide = [str(net) for net in networks if any(address in net for address in addresses)]
    if wide:
        text = f"TRUSTED_PROXIES ({', '.join(wide)}) has addresses of interns"
        advice = "Name only the ingress controllers' addresses: interns may forge theirs."
        yield Finding(_SUBJECT, "problem", text, advice)
    else:
        yield Finding(_SUBJECT, "ok", "no address of an intern is among TRUSTED_PROXIES")
