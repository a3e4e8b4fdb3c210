"""Interns: what they run in, and how long what may take."""

from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from gateway import env
from gateway.environment.exports import build_s3_storage
from gateway.environment.section import Section

DEFAULT_HOST: Final = "local"
JOBS_QUEUE: Final = "interns"


def name_host_queue(queue: str, host: str) -> str:
    """What the queue is called for one machine; that of a machine without a name of its own is
    the queue itself."""
    return queue if host == DEFAULT_HOST else f"{queue}@{host}"


def archive_storage(store: str, endpoint: str, home: Path, *, silence_s: float) -> dict[str, Any]:
    """The entry of STORAGES; `store` is empty for `archives/` in the home folder."""
    if store:
        return build_s3_storage(store, endpoint, silence_s=silence_s)
    return {
        "BACKEND": "interns.archives.store.LocalArchives",
        "OPTIONS": {"location": str(home / "archives"), "allow_overwrite": True},
    }


setting = Section("Interns")
INTERN_RUNTIME = setting(
    "INTERN_RUNTIME",
    "what interns run in, or the import path of another driver",
    env.runtime,
    "process",
    ("process", "container", "kubernetes"),
)
if INTERN_RUNTIME == "kubernetes" and find_spec("kubernetes") is None:
    raise env.SettingError(
        "INTERN_RUNTIME", "kubernetes needs: pip install 'routing-gateway[kubernetes]'"
    )
INTERN_HOST = setting(
    "INTERN_HOST",
    "this machine's name among those that run interns; each has another one",
    env.host_name,
    DEFAULT_HOST,
)
INTERN_HOST_URL = setting(
    "INTERN_HOST_URL",
    "where web processes of other machines reach one of this machine, such as "
    "`https://10.0.0.2:8443`; without it chats reach interns of this machine from here only",
    env.base_url,
)
INTERN_HOST_SECONDS = setting(
    "INTERN_HOST_SECONDS",
    "how long a machine that runs interns may be silent before it counts as gone",
    env.seconds,
    120,
)
INTERN_DOMAIN = setting(
    "INTERN_DOMAIN", "what the hostnames of interns end in", env.host_name, "interns.localhost"
)
INTERN_REQUIRE_SLACK_INSTALL = setting(
    "INTERN_REQUIRE_SLACK_INSTALL",
    "whether Slack must be installed before the first boot",
    env.boolean,
    False,
)
INTERNS_MAX_PER_MEMBER = setting(
    "INTERNS_MAX_PER_MEMBER",
    "interns of one member of an account",
    env.integer,
    10,
    minimum=1,
    maximum=10_000,
)
INTERN_LEASE_SECONDS = setting(
    "INTERN_LEASE_SECONDS", "when the work of a dead worker is free again", env.seconds, 60
)
INTERN_REAPER_SECONDS = setting(
    "INTERN_REAPER_SECONDS", "how often such work is looked for", env.seconds, 5
)
INTERN_PROBE_SECONDS = setting(
    "INTERN_PROBE_SECONDS", "how often running interns are asked for their health", env.seconds, 15
)
INTERN_RECONCILE_SECONDS = setting(
    "INTERN_RECONCILE_SECONDS", "how often runtimes are compared with interns", env.seconds, 300
)
INTERN_OPERATION_SECONDS = setting(
    "INTERN_OPERATION_SECONDS",
    "how long a request about an intern may take before it is 408",
    env.seconds,
    10,
)
INTERN_PROVISION_SECONDS = setting(
    "INTERN_PROVISION_SECONDS", "how long booting may take", env.seconds, 600
)
INTERN_HEALTH_SECONDS = setting(
    "INTERN_HEALTH_SECONDS", "how long the health check of a boot may take", env.seconds, 60
)
INTERN_GATEWAY_URL = setting(
    "INTERN_GATEWAY_URL",
    "where interns reach this gateway, as `http://host:port/api/v1`; by default this host and port",
    env.base_url,
)
INTERN_PORT = setting(
    "INTERN_PORT",
    "a second port of web, which answers what agents of interns ask for and nothing else, for "
    "`INTERN_GATEWAY_URL` to name, other than `PORT`; 0 is none, and `GATEWAY_BIND` names its own",
    env.integer,
    0,
    maximum=65535,
)
INTERN_PUBLISH_SECONDS = setting(
    "INTERN_PUBLISH_SECONDS",
    "how long the queue is waited for before a request is 502",
    env.seconds,
    1,
)
INTERN_JOBS = setting(
    "INTERN_JOBS",
    "interns that are booted or taken down at once",
    env.integer,
    4,
    minimum=1,
    maximum=256,
)
INTERN_QUESTION_SECONDS = setting(
    "INTERN_QUESTION_SECONDS",
    "how long a question of an intern waits for its answer",
    env.seconds,
    300,
)
INTERN_TURN_SECONDS = setting(
    "INTERN_TURN_SECONDS", "how long a chat request with an intern may take", env.seconds, 300
)
INTERN_KEEPALIVE_SECONDS = setting(
    "INTERN_KEEPALIVE_SECONDS",
    "silence in an intern's stream after which a comment is sent",
    env.seconds,
    30,
)
INTERN_RETAINED_BYTES = setting(
    "INTERN_RETAINED_BYTES",
    "what is kept of a paused run's output that nobody reads",
    env.integer,
    1_048_576,
    minimum=1024,
    maximum=67_108_864,
)
INTERN_RUN_DAYS = setting(
    "INTERN_RUN_DAYS",
    "days for which the rows of runs are kept",
    env.integer,
    30,
    minimum=1,
    maximum=3650,
)
INTERN_SANDBOX = setting(
    "INTERN_SANDBOX",
    "`auto` uses bubblewrap where it works, else plain processes without the shell tool; "
    "`required` refuses to run without it; `off` never uses it",
    env.choice,
    "auto",
    ("auto", "required", "off"),
)
INTERN_EGRESS = setting(
    "INTERN_EGRESS",
    "whether interns have the host's network; without it they reach nothing but this gateway",
    env.boolean,
    False,
)
INTERN_MEMORY_BYTES = setting(
    "INTERN_MEMORY_BYTES",
    "memory of each process of an intern; of a container as a whole",
    env.integer,
    2_147_483_648,
    minimum=268_435_456,
)
INTERN_FILE_BYTES = setting(
    "INTERN_FILE_BYTES", "largest file of an intern", env.integer, 1_073_741_824, minimum=1_048_576
)
INTERN_DISK_BYTES = setting(
    "INTERN_DISK_BYTES",
    "all of an intern's disk, which is measured about once a second",
    env.integer,
    10_737_418_240,
    minimum=16_777_216,
)
INTERN_PROCESSES = setting(
    "INTERN_PROCESSES",
    "processes of an intern in a sandbox",
    env.integer,
    256,
    minimum=16,
    maximum=32_768,
)
INTERN_CPUS = setting(
    "INTERN_CPUS",
    "processors of a container, or of a sandbox where `SANDBOX_CGROUP` holds",
    env.decimal,
    1,
    minimum=0.1,
    maximum=1024,
)
INTERN_CONTAINER_HOST = setting(
    "INTERN_CONTAINER_HOST",
    "the container engine, as `unix:///path`; by default Docker's own",
    env.text,
)
INTERN_CONTAINER_IMAGE = setting(
    "INTERN_CONTAINER_IMAGE",
    "a ready image for interns; by default it is built here. In a cluster it must be named: the "
    "gateway's own",
    env.text,
)
INTERN_KUBERNETES_CONFIG = setting(
    "INTERN_KUBERNETES_CONFIG",
    "the path of a kubeconfig; by default the service account of the Pod that this process runs in",
    env.text,
)
INTERN_KUBERNETES_NAMESPACE = setting(
    "INTERN_KUBERNETES_NAMESPACE",
    "the namespace of interns' Pods, which holds nothing else",
    env.host_name,
    "gateway-interns",
)
INTERN_KUBERNETES_GATEWAY_NAMESPACE = setting(
    "INTERN_KUBERNETES_GATEWAY_NAMESPACE",
    "the namespace of the gateway's own Pods, which alone reach interns and are reached by them",
    env.host_name,
    "gateway",
)
INTERN_KUBERNETES_STORAGE_CLASS = setting(
    "INTERN_KUBERNETES_STORAGE_CLASS",
    "the storage class of interns' disks; by default the cluster's",
    env.text,
)
INTERN_CONTAINER_BASE = setting(
    "INTERN_CONTAINER_BASE", "what that image is built on; by default Python's", env.text
)
INTERN_ARCHIVE_DAYS = setting(
    "INTERN_ARCHIVE_DAYS",
    "days for which archives of interns' disks are kept",
    env.integer,
    30,
    minimum=1,
    maximum=3650,
)
RATE_INTERN_TURNS = setting(
    "RATE_INTERN_TURNS",
    "turns of one user per minute, over all keys and interns",
    env.integer,
    0,
    maximum=env.RATE_MAX,
)
RATE_VAULT = setting(
    "RATE_VAULT", "requests to vaults per account and minute", env.integer, 0, maximum=env.RATE_MAX
)
INTERN_ARCHIVE_STORE = setting(
    "INTERN_ARCHIVE_STORE",
    "where archives go, as `s3://bucket/prefix`; by default `GATEWAY_HOME/archives`",
    env.archive_store,
)
INTERN_ARCHIVE_ENDPOINT = setting(
    "INTERN_ARCHIVE_ENDPOINT", "base URL of another S3 server than Amazon's", env.base_url
)
INTERN_ARCHIVE_SECONDS = setting(
    "INTERN_ARCHIVE_SECONDS",
    "how long archiving a disk and restoring it may take",
    env.seconds,
    3600,
)
INTERN_ARCHIVE_SILENCE_SECONDS = setting(
    "INTERN_ARCHIVE_SILENCE_SECONDS",
    "silence of the store after which a request is tried once more, then given up",
    env.seconds,
    20,
)
INTERN_FETCH_SECONDS = setting(
    "INTERN_FETCH_SECONDS", "how long an intern's request to the outside may take", env.seconds, 30
)
INTERN_FETCH_BYTES = setting(
    "INTERN_FETCH_BYTES",
    "how much of the answer an intern gets",
    env.integer,
    5_242_880,
    minimum=1024,
    maximum=67_108_864,
)
INTERN_FETCH_RPM = setting(
    "INTERN_FETCH_RPM",
    "requests to the outside per intern and minute; 0 is any number",
    env.integer,
    120,
    maximum=env.RATE_MAX,
)
INTERN_FETCH_PRIVATE_HOSTS = setting(
    "INTERN_FETCH_PRIVATE_HOSTS",
    "hosts that interns may reach though they are not on the public Internet, with commas between",
    env.host_names,
)
