"""The mutants of one subject, in a process of its own. Everything is imported once, and each mutant
is a fork that changes the code in place and runs the tests.

What was computed at import stays as it was, so that what a test module expects does not move along.
A fork has a database of its own, and what it started ends with it.
"""

import ast
import builtins
import gc
import json
import os
import random
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

import pytest

from tests.mutation.mutants import Mutant, mutants_of

ROOT = Path(__file__).resolve().parents[2]
# What nobody waits for any longer, beside five times what the tests usually take.
_PATIENCE_S = 20.0
_BASELINE_S = 1_800.0
_NOTE = "_note_call"
_Place = tuple[str, int]


class Hunt:
    """A pytest plugin that runs the collected tests once for each mutant instead of once."""

    def __init__(self, subject: dict[str, Any], *, most: int, seed: int, report: Path) -> None:
        found = [each for file in subject["modules"] for each in mutants_of(file, ROOT)]
        explained = subject.get("explained", {})
        self._stale = sorted(explained.keys() - {each.key for each in found})
        self._mutants = [each for each in found if each.key not in explained]
        self._explained = len(found) - len(self._mutants)
        if most and len(self._mutants) > most:
            self._mutants = sorted(random.Random(seed).sample(self._mutants, most))
        self._files = {str(ROOT / file) for file in subject["modules"]}
        self._report = report

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection(self) -> None:
        import hypothesis  # Not before pytest has seen to it.

        phases = (hypothesis.Phase.explicit, hypothesis.Phase.generate)
        options: dict[str, Any] = {"deadline": None, "database": None, "phases": phases}
        hypothesis.settings.register_profile("mutation", derandomize=True, **options)
        hypothesis.settings.load_profile("mutation")

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        from django.urls import get_resolver

        assert not session.testsfailed, "the tests are not collected"
        assert get_resolver().url_patterns  # Views are imported once, not by each fork.
        plugins = session.config.pluginmanager.get_plugins()
        self._bed = next(each.BED for each in plugins if hasattr(each, "BED"))
        gc.unfreeze()  # What is frozen is not among the objects.
        functions = [each for each in gc.get_objects() if isinstance(each, FunctionType)]
        self._functions = [each for each in functions if each.__code__.co_filename in self._files]
        paths = [(getattr(each, "__file__", None), each) for each in sys.modules.values()]
        self._modules = {path: module for path, module in paths if path in self._files}
        began = time.monotonic()
        took_s = self._measure(session.items)
        survivors = [str(m) for m in self._mutants if self._survives(m, session.items, took_s)]
        result = {
            "killed": len(self._mutants) - len(survivors),
            "survivors": survivors,
            "explained": self._explained,
            "stale": self._stale,
            "took_s": time.monotonic() - began,
        }
        self._report.write_text(json.dumps(result), encoding="utf-8")
        return True

    def _measure(self, items: Sequence[pytest.Item]) -> float:
        """How long the tests take as they stand, and which functions each of them calls."""
        notes = self._report.with_suffix(".calls")
        called: set[_Place] = set()

        def look() -> int:
            found = {}
            vars(builtins)[_NOTE] = lambda: called.add(_place_of(sys._getframe(1).f_code))
            for path in self._modules:
                tree = _Noting().visit(ast.parse(Path(path).read_text(encoding="utf-8")))
                self._put(compile(ast.fix_missing_locations(tree), path, "exec"))
            before = time.monotonic()
            for item in _run(items):
                found[item.nodeid] = time.monotonic() - before, sorted(called)
                before = time.monotonic()
                called.clear()
                self._forget_answers()
            notes.write_text(json.dumps(found), encoding="utf-8")
            return items[0].session.testsfailed

        began = time.monotonic()
        assert self._fork(look, _BASELINE_S) == 0, "the tests fail without any mutant"
        told = json.loads(notes.read_text(encoding="utf-8"))
        self._took_s = {node: took_s for node, (took_s, _) in told.items()}
        self._called = {node: set(map(tuple, places)) for node, (_, places) in told.items()}
        return time.monotonic() - began

    def _survives(self, mutant: Mutant, items: Sequence[pytest.Item], took_s: float) -> bool:
        place = (mutant.function, mutant.first_line)
        # Those that never call the function cannot notice; of the others the quickest come first.
        callers = [
            item for item in items if not mutant.function or place in self._called[item.nodeid]
        ]
        ordered = sorted(callers, key=lambda item: self._took_s[item.nodeid])

        def attempt() -> int:
            self._change(mutant)
            return int(any(item.session.testsfailed for item in _run(ordered)))

        return self._fork(attempt, _PATIENCE_S + 5 * took_s) == 0

    def _change(self, mutant: Mutant) -> None:
        """Put the mutant's code into the functions that there are, or its values into every module
        that has the old ones."""
        tree, path = mutant.tree(ROOT), str(ROOT / mutant.file)
        code, module = compile(tree, path, "exec"), self._modules[path]
        self._forget_answers()
        if mutant.function:
            self._put(code)
            return
        scope = {"__name__": module.__name__, "__file__": path}
        exec(code, scope)  # noqa: S102 - It is our own source with one change.
        for name in _names_bound(tree):
            old, new = getattr(module, name), scope[name]
            for each in list(sys.modules.values()) if old != new else ():
                if getattr(each, "__dict__", {}).get(name) is old:
                    setattr(each, name, new)

    def _put(self, code: CodeType) -> None:
        """Put the codes of a module's functions into those that there are."""
        codes = {_place_of(each): each for each in _codes_in(code)}
        for function in self._functions:
            if function.__code__.co_filename == code.co_filename:
                function.__code__ = codes[_place_of(function.__code__)]

    def _forget_answers(self) -> None:
        for module in self._modules.values():
            for value in vars(module).values():
                getattr(value, "cache_clear", int)()

    def _fork(self, work: Callable[[], int], patience_s: float) -> int:
        """What `work` returns in a fork of its own; not 0 where it does not end, or not well."""
        if self._bed.is_postgres:
            self._bed.postgres.drop(f"inprocess_{self._bed.name}")
        pid = os.fork()
        if pid == 0:
            status = 2
            try:
                os.setsid()
                status = min(1, work())
            finally:
                os._exit(status)
        until = time.monotonic() + patience_s
        while not (ended := os.waitpid(pid, os.WNOHANG))[0] and time.monotonic() < until:
            time.sleep(0.005)
        with suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)
        return os.waitstatus_to_exitcode(ended[1] if ended[0] else os.waitpid(pid, 0)[1])


class _Noting(ast.NodeTransformer):
    """Has each function note that it is called: a profiler would slow everything down threefold."""

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        self.generic_visit(node)
        node.body.insert(0, ast.parse(f"{_NOTE}()").body[0])
        return node


def _run(items: Sequence[pytest.Item]) -> Iterator[pytest.Item]:
    for item, following in zip(items, [*items[1:], None], strict=True):
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        yield item


def _codes_in(code: CodeType) -> Iterator[CodeType]:
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield each
            yield from _codes_in(each)


def _place_of(code: CodeType) -> _Place:
    return code.co_qualname, code.co_firstlineno


def _names_bound(tree: ast.Module) -> list[str]:
    bound = [each for each in tree.body if isinstance(each, ast.Assign | ast.AnnAssign)]
    targets = [each.targets[0] if isinstance(each, ast.Assign) else each.target for each in bound]
    return [each.id for each in targets if isinstance(each, ast.Name)]


if __name__ == "__main__":
    asked = json.loads(sys.argv[1])
    options = ["-q", "--capture=no", "--timeout=600", "-p", "no:cacheprovider", "-p", "no:xdist"]
    # Clients that are forgotten between tests leave their connections to the garbage collector.
    options += ["-p", "no:unraisableexception", "-m", "not nightly", *asked["subject"]["tests"]]
    asked["report"] = Path(asked["report"])
    sys.exit(pytest.main(options, [Hunt(**asked)]))
