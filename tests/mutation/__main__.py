"""Changes single lines of the parts that must not be wrong, and asks whether their tests notice.

`python -m tests.mutation [SUBJECT ...] [--most N] [--seed S]`: `subjects.toml` says which modules a
subject is, which tests guard it, and why some changes of it change nothing.
"""

import argparse
import json
import os
import subprocess
import sys
import time
import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tests.support.bed import Bed

SCORE_MIN = 92.0


def main() -> int:
    subjects = tomllib.loads(Path(__file__).with_name("subjects.toml").read_text(encoding="utf-8"))
    parser = argparse.ArgumentParser(prog="tests.mutation")
    parser.add_argument("subject", nargs="*", help=f"of {', '.join(subjects)}; all by default")
    parser.add_argument("--most", type=int, default=150, help="mutants a subject, drawn; 0 is all")
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    if unknown := set(asked.subject) - set(subjects):
        parser.error(f"no such subject: {', '.join(sorted(unknown))}")
    began = time.monotonic()
    bed = Bed()
    try:
        bed.enter()
        bed.migrated_template()
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            names = asked.subject or list(subjects)
            done = [pool.submit(_hunt, bed, n, subjects[n], asked.most, asked.seed) for n in names]
            results = [each.result() for each in done]
    finally:
        bed.stop()
    killed = sum(each["killed"] for each in results)
    survived = sum(len(each["survivors"]) for each in results)
    explained = sum(each["explained"] for each in results)
    broken = sum("error" in each for each in results)
    score = 100 * killed / max(1, killed + survived)
    took_s = time.monotonic() - began
    _tell(f"{killed} killed, {survived} survived, {explained} explained, {broken} subjects failed")
    _tell(f"score {score:.1f} % (at least {SCORE_MIN} %), seed {asked.seed}, in {took_s:.0f} s")
    return int(score < SCORE_MIN or broken > 0)


def _hunt(bed: Bed, name: str, subject: dict[str, Any], most: int, seed: int) -> dict[str, Any]:
    report = bed.root / f"mutants-{name}.json"
    given = {"subject": subject, "most": most, "seed": seed, "report": str(report)}
    # The bed is shared as xdist's workers share it, and the tests name their settings themselves.
    env = os.environ | {"PYTEST_XDIST_WORKER": name}
    del env["DJANGO_SETTINGS_MODULE"]
    run = subprocess.run(
        [sys.executable, "-m", "tests.mutation.hunt", json.dumps(given)],
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if not report.exists():
        _tell(f"{name}: failed\n{run.stdout[-3000:]}")
        return {"killed": 0, "survivors": [], "explained": 0, "error": True}
    result: dict[str, Any] = json.loads(report.read_text(encoding="utf-8"))
    lines = [f"  survived: {each}" for each in result["survivors"]]
    lines += [f"  explained, but no mutant any more: {each}" for each in result["stale"]]
    counts = f"{result['killed']} killed, {len(result['survivors'])} survived"
    _tell("\n".join([f"{name}: {counts}, {result['took_s']:.0f} s", *lines]))
    return result


def _tell(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
