"""The software bill of materials: every package of the lock, as CycloneDX JSON.

`make sbom` writes it to GATEWAY_HOME (`var/` by default), which is not committed.
"""

import re
import sys
import tomllib
from pathlib import Path

from cyclonedx.contrib.hash.factories import HashTypeFactory
from cyclonedx.model import ExternalReference, ExternalReferenceType, XsUri
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.output import make_outputter
from cyclonedx.schema import OutputFormat, SchemaVersion
from packageurl import PackageURL

PROJECT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(PROJECT))

from gateway.home import home, write_private  # noqa: E402 - The project is no package.

_PIN = re.compile(r"^([A-Za-z0-9._-]+)(?:\[[^]]*\])?==([^ ;\\]+)")
_HASH = re.compile(r"--hash=(sha256:[0-9a-f]{64})")


def component(entry: str) -> Component:
    """One requirement of a lock with its hashes, one for each file the package comes as."""
    pinned = _PIN.match(entry)
    assert pinned, entry
    name, version = pinned.groups()
    url = PackageURL("pypi", None, name, version)
    read = HashTypeFactory().from_composite_str
    digests = [read(digest) for digest in _HASH.findall(entry)]
    files = ExternalReference(
        type=ExternalReferenceType.DISTRIBUTION, url=XsUri(str(url)), hashes=digests
    )
    return Component(
        name=name, version=version, purl=url, bom_ref=str(url), external_references=[files]
    )


def bom(lock: str, project: dict[str, str]) -> Bom:
    """`lock` is the text of a lock file, `project` the table of that name in pyproject.toml."""
    found = Bom(components=[component(e) for e in re.split(r"\n(?=\S)", lock) if _PIN.match(e)])
    found.metadata.component = Component(
        name=project["name"],
        version=project["version"],
        type=ComponentType.APPLICATION,
        bom_ref=project["name"],
    )
    found.register_dependency(found.metadata.component, found.components)
    return found


def main() -> int:
    lock = (PROJECT / "requirements.lock").read_text("utf-8")
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text("utf-8"))["project"]
    outputter = make_outputter(bom(lock, project), OutputFormat.JSON, SchemaVersion.V1_6)
    file = home() / "sbom.json"
    write_private(file, outputter.output_as_string(indent=2) + "\n")
    sys.stderr.write(f"{file}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
