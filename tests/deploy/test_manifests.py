"""What `deploy/` ships for systemd, compose and Kubernetes, as those read it."""

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
import yaml

from gateway import settings
from gateway.environment.section import Section
from gateway.run.commands import PROCESSES
from interns.runtime.cluster import objects as cluster
from tests.support.debian import need, run
from tests.support.manage import PROJECT

DEPLOY = PROJECT / "deploy"
UNITS = DEPLOY / "systemd"
# The most that a unit may be exposed, as systemd counts it.
EXPOSURE_MAX = 3.0
KUBERNETES = ("1.31", "1.32", "1.33")


def list_settings() -> set[str]:
    """Names of settings that the files give to a process of the gateway."""
    compose = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    names = set(compose["x-gateway"]["environment"])
    [of_pods] = yaml.safe_load_all((DEPLOY / "kubernetes" / "settings.yaml").read_text())
    names |= set(of_pods["data"])
    overlay = (DEPLOY / "kubernetes-interns" / "kustomization.yaml").read_text()
    names |= set(re.findall(r"/data/([A-Z_]+)", overlay))
    for unit in UNITS.glob("*.service"):
        for line in re.findall("^Environment=(.*)$", unit.read_text(), re.MULTILINE):
            names |= {pair.partition("=")[0] for pair in line.split()}
    for line in re.findall(
        r"^(?:ENV |    )([A-Z_]+)=", (DEPLOY / "Containerfile").read_text(), re.M
    ):
        names.add(line)
    return names


def list_processes() -> Iterator[str]:
    """The command of each container and unit."""
    for service in yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"].values():
        if "GATEWAY_IMAGE" in service["image"]:
            yield from service["command"]
    for file in DEPLOY.glob("kubernetes*/*.yaml"):
        for document in yaml.safe_load_all(file.read_text()):
            template = document.get("spec", {}).get("template")
            for container in template["spec"]["containers"] if template else ():
                yield from container["args"]
    for unit in UNITS.glob("*.service"):
        yield from re.findall(r"routing-gateway (\S+)$", unit.read_text(), re.MULTILINE)


def test_the_files_speak_of_settings_and_processes_that_there_are() -> None:
    assert settings.GATEWAY_VERSION
    known = {each.name for section in Section.every.values() for each in section.declarations}
    known |= {f"{name}_FILE" for name in known}
    others = re.compile("PATH|PYTHON.*|PIP_.*")

    assert {name for name in list_settings() if not others.fullmatch(name)} <= known
    commands = set(list_processes()) - {"%i"}
    assert commands <= PROCESSES.keys()
    assert PROCESSES.keys() - commands == set()
    wanted = (UNITS / "gateway.target").read_text() + (
        UNITS / "gateway-interns@.service"
    ).read_text()
    assert set(re.findall(r"gateway@(\S+)\.service", wanted)) <= PROCESSES.keys()


@pytest.mark.nightly
def test_systemd_takes_the_units_and_finds_them_closed(tmp_path: Path) -> None:
    need(**{"systemd-analyze": "systemd"})
    for file in UNITS.iterdir():
        shutil.copy(file, tmp_path)
    for file in tmp_path.glob("*.service"):
        file.write_text(file.read_text().replace("/opt/gateway/bin/routing-gateway", "/bin/true"))
    instances = ("gateway-web@1", "gateway@worker", "gateway@beat", "gateway-interns@interns")
    names = [f"{name}.service" for name in (*instances, "gateway-release", "gateway-backup")]
    others = ["gateway.target", "gateway-web.socket", "gateway-backup.timer"]

    # It exits with 1 for what is wrong, and says it.
    verified = subprocess.run(
        ["systemd-analyze", "verify", *(tmp_path / name for name in (*names, *others))],
        capture_output=True,
        text=True,
    )

    assert (verified.returncode, verified.stderr) == (0, "")
    for unit in UNITS.glob("*.service"):
        words: list[str | Path] = ["systemd-analyze", "security", "--offline=true", unit]
        exposure = float(re.findall(r"exposure level for \S+: ([0-9.]+)", run(words))[0])
        assert exposure <= EXPOSURE_MAX, (unit.name, exposure)


@pytest.mark.nightly
def test_both_proxies_take_their_files(tmp_path: Path) -> None:
    need(nginx="nginx-light", caddy="caddy", openssl="openssl")
    words: list[str | Path] = [
        "validate",
        "--adapter",
        "caddyfile",
        "--config",
        DEPLOY / "caddy" / "Caddyfile",
    ]
    names = {"GATEWAY_DOMAIN": "gateway.example", "WEB": "127.0.0.1:8000", "HOME": str(tmp_path)}
    run(["env", *(f"{name}={value}" for name, value in names.items()), "caddy", *words])

    pair: list[str | Path] = [
        "-keyout",
        tmp_path / "privkey.pem",
        "-out",
        tmp_path / "fullchain.pem",
    ]
    run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=x", *pair])
    block = (DEPLOY / "nginx" / "gateway.conf").read_text()
    block = block.replace("/etc/letsencrypt/live/gateway.example", str(tmp_path))
    config = tmp_path / "nginx.conf"
    config.write_text(f"pid {tmp_path}/pid; events {{}} http {{ {block} }}")
    run(["nginx", "-t", "-c", config, "-e", tmp_path / "log"])


def list_objects_of_interns() -> list[dict[str, Any]]:
    """What the kubernetes driver makes of an intern."""
    intern_id, boot_id = uuid4(), uuid4()
    aliases = [{"ip": "10.0.0.1", "hostnames": ["web"]}]
    pod = cluster.build_agent_pod(intern_id, boot_id, aliases=aliases)
    owner = {"metadata": {**pod["metadata"], "uid": str(uuid4())}}
    return [
        *(pod, cluster.build_reader_pod(intern_id, boot_id, live_s=60)),
        *(cluster.build_claim(intern_id), cluster.build_policy(intern_id)),
        cluster.build_secret(intern_id, boot_id, owner, {}),
    ]


@pytest.mark.nightly
def test_kubernetes_knows_every_object(tmp_path: Path, settings: Any) -> None:
    settings.INTERN_CONTAINER_IMAGE, settings.INTERN_EGRESS = "gateway", True
    settings.INTERN_KUBERNETES_STORAGE_CLASS = "fast"
    need(kubectl="kubernetes-client")
    objects = list_objects_of_interns()
    for folder in ("kubernetes", "kubernetes-interns"):
        objects += yaml.safe_load_all(run(["kubectl", "kustomize", DEPLOY / folder]))
    manifest = tmp_path / "gateway.yaml"
    venv = tmp_path / "venv"
    run([sys.executable, "-m", "venv", venv])
    run([venv / "bin" / "pip", "install", "--quiet", "kubernetes-validate==1.37.0"])
    # The Prometheus operator's own is in no schema of Kubernetes.
    known = [each for each in objects if each["kind"] != "ServiceMonitor"]
    manifest.write_text(yaml.safe_dump_all(known))

    for version in KUBERNETES:
        said = run([venv / "bin" / "kubernetes-validate", "-k", version, "--strict", manifest])
        assert said.count(" passed ") == len(known), said
    kinds = {each["kind"] for each in objects}
    assert {"Deployment", "Job", "HorizontalPodAutoscaler", "PodDisruptionBudget"} <= kinds
    assert {"NetworkPolicy", "ServiceMonitor", "Role", "Pod", "Secret"} <= kinds
