"""The Node clients, installed at fixed versions into a folder below GATEWAY_HOME."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

from gateway.home import home, private_folder

PACKAGES = {
    "openai": "7.57.0",
    "@anthropic-ai/sdk": "1.12.0",
    "ai": "7.0.173",
    "@ai-sdk/openai-compatible": "3.0.92",
    "@openrouter/sdk": "1.3.19",
}
SCRIPTS = Path(__file__).parent
_INSTALL_S = 600
_TAIL_CHARS = 1500


def main() -> int:
    """Install and print the folder. Returns the exit status."""
    try:
        sys.stdout.write(f"{install_packages()}\n")
    except RuntimeError as error:
        sys.stderr.write(f"conformance-node: {error}\n")
        return 1
    return 0


def install_packages() -> Path:
    """The folder with the packages and a fresh copy of the scripts. Raises RuntimeError."""
    folder = private_folder(home() / "conformance-node")
    manifest = json.dumps({"private": True, "type": "module", "dependencies": PACKAGES})
    file = folder / "package.json"
    if not (file.exists() and file.read_text() == manifest):
        _install(folder, manifest)
    for script in SCRIPTS.glob("*.mjs"):
        # Modules are looked up from where a script lies.
        shutil.copy(script, folder / script.name)
    return folder


def _install(folder: Path, manifest: str) -> None:
    if not (shutil.which("node") and shutil.which("npm")):
        raise RuntimeError("this needs node and npm, which are not installed")
    file, draft = folder / "package.json", folder / "wanted"
    file.unlink(missing_ok=True)
    draft.mkdir(exist_ok=True)
    (draft / "package.json").write_text(manifest)
    npm = ["npm", "install", "--ignore-scripts", "--no-audit", "--no-fund", "--prefix", str(draft)]
    done = subprocess.run(npm, capture_output=True, text=True, check=False, timeout=_INSTALL_S)
    if done.returncode:
        raise RuntimeError(f"npm: {(done.stderr or done.stdout).strip()[-_TAIL_CHARS:]}")
    shutil.rmtree(folder / "node_modules", ignore_errors=True)
    (draft / "node_modules").rename(folder / "node_modules")
    shutil.rmtree(draft)
    # Written last: it says that everything is there.
    file.write_text(manifest)


if __name__ == "__main__":
    sys.exit(main())
