"""Single changes of a module's source, each of which some test should notice."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

_COMPARED: Final[dict[type[ast.cmpop], type[ast.cmpop]]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
_COUNTED: Final[dict[type[ast.operator], type[ast.operator]]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.FloorDiv: ast.Mult,
    ast.Div: ast.Mult,
    ast.Mod: ast.Mult,
    ast.BitAnd: ast.BitOr,
}
_CALLED: Final = {"max": "min", "min": "max", "any": "all", "all": "any", "round": "int"}
_IS_SQL: Final = re.compile(r"\b(SELECT|UPDATE|DELETE|WHERE|AND|SET|NULL|EXISTS)\b|%s")
_SQL: Final = (
    *(("<=", "<"), (">=", ">"), (" < ", " <= "), (" > ", " >= "), (" + ", " - "), (" - ", " + ")),
    *((" AND ", " OR "), ("IS NULL", "IS NOT NULL"), ("IS NOT NULL", "IS NULL")),
    ("NOT EXISTS", "EXISTS"),
)
_SQL_TERM: Final = re.compile(r" AND [\w.]+ (?:=|<>|<=|>=|<|>) (%s|\w+\b(?!\())")
# Messages of logs and what only a bug reaches.
_LEFT_OUT: Final = (ast.Assert, ast.Import, ast.ImportFrom, ast.Global, ast.Nonlocal)


class Mutant(NamedTuple):
    """One change. `function` is the qualified name of the code that it is in, "" at module level;
    `place` and `variant` find it again in a fresh tree."""

    file: str
    line: int
    function: str
    first_line: int
    was: str
    now: str
    place: int
    variant: int

    @property
    def key(self) -> str:
        return f"{self.function or '-'}: {self.was} -> {self.now}"

    def __str__(self) -> str:
        return f"{self.file}:{self.line} {self.key}"

    def tree(self, root: Path) -> ast.Module:
        """The module with this change."""
        tree = ast.parse((root / self.file).read_text(encoding="utf-8"))
        old = list(ast.walk(tree))[self.place]
        new = ast.copy_location(list(_variants(old))[self.variant], old)
        changed = ast.fix_missing_locations(_Replaced(old, new).visit(tree))
        assert isinstance(changed, ast.Module)
        return changed


def mutants_of(file: str, root: Path) -> list[Mutant]:
    tree = ast.parse((root / file).read_text(encoding="utf-8"))
    places = {id(node): place for place, node in enumerate(ast.walk(tree))}
    found: list[Mutant] = []
    for node, function, first_line in _sites(tree):
        for variant, new in enumerate(_variants(node)):
            was, now = _texts(node, new)
            if was != now:
                site = (file, getattr(node, "lineno", 0), function, first_line)
                found.append(Mutant(*site, was, now, places[id(node)], variant))
    return found


class _Replaced(ast.NodeTransformer):
    def __init__(self, old: ast.AST, new: ast.AST) -> None:
        self._old, self._new = old, new

    def visit(self, node: ast.AST) -> ast.AST:
        return self._new if node is self._old else self.generic_visit(node)


def _sites(tree: ast.Module) -> Iterator[tuple[ast.AST, str, int]]:
    """What may be changed: bodies of functions, and what module-level names are bound to."""
    for statement in tree.body:
        if isinstance(statement, ast.Assign | ast.AnnAssign):
            if statement.value is not None:
                yield from _walk_code(statement.value, "", 0)
        else:
            yield from _walk_code(statement, "", 0)


def _walk_code(node: ast.AST, function: str, first_line: int) -> Iterator[tuple[ast.AST, str, int]]:
    if isinstance(node, ast.keyword) and node.arg == "strict":
        return  # An assertion, as those that are left out.
    if isinstance(node, _LEFT_OUT) or ast.unparse(node).startswith(("log.", "TYPE_CHECKING")):
        return
    if isinstance(node, ast.ClassDef):
        for each in node.body:
            if isinstance(each, ast.FunctionDef | ast.ClassDef):
                yield from _walk_code(each, f"{function}{node.name}.", 0)
    elif isinstance(node, ast.FunctionDef):
        outer = f"{function}.<locals>." if first_line else function
        first = min([node.lineno, *(each.lineno for each in node.decorator_list)])
        for each in node.body:
            yield from _walk_code(each, outer + node.name, first)
    elif isinstance(node, ast.AnnAssign):
        if node.value is not None:
            yield from _walk_code(node.value, function, first_line)
    else:
        yield node, function, first_line
        for child in ast.iter_child_nodes(node):
            yield from _walk_code(child, function, first_line)


def _variants(node: ast.AST) -> Iterator[ast.AST]:
    match node:
        case ast.Compare(left, ops, comparators):
            for at, op in enumerate(ops):
                changed = [*ops[:at], _COMPARED[type(op)](), *ops[at + 1 :]]
                yield ast.Compare(left, changed, comparators)
        case ast.BoolOp(op, values):
            yield ast.BoolOp(ast.And() if isinstance(op, ast.Or) else ast.Or(), values)
            for at in range(len(values)):
                rest = values[:at] + values[at + 1 :]
                yield rest[0] if len(rest) == 1 else ast.BoolOp(op, rest)
        case ast.UnaryOp(ast.Not(), operand):
            yield operand
        case ast.UnaryOp(ast.USub(), ast.BinOp(ast.UnaryOp(ast.USub(), left), op, right)):
            yield ast.BinOp(left, op, right)  # Rounded the other way.
        case ast.UnaryOp(ast.USub(), operand):
            yield operand
        case ast.BinOp(left, op, right) if type(op) in _COUNTED:
            yield ast.BinOp(left, _COUNTED[type(op)](), right)
        case ast.AugAssign(target, op, value) if type(op) in _COUNTED:
            yield ast.AugAssign(target, _COUNTED[type(op)](), value)
        case ast.Constant(bool(value)):
            yield ast.Constant(not value)
        case ast.Constant(int(value)):
            yield ast.Constant(value + 1)
        case ast.Constant(str(value)) if _IS_SQL.search(value):
            yield from map(ast.Constant, _sql(value))
        case ast.IfExp(_, body, orelse):
            yield from (body, orelse)
        case ast.If(test, body, orelse) if not isinstance(test, ast.UnaryOp):
            yield ast.If(ast.UnaryOp(ast.Not(), test), body, orelse)
        case ast.comprehension(target, source, ifs, is_async) if ifs:
            yield ast.comprehension(target, source, ifs[1:], is_async)
        case ast.Call(function, given, keywords):
            if isinstance(function, ast.Name) and function.id in _CALLED:
                yield ast.Call(ast.Name(_CALLED[function.id], ast.Load()), given, keywords)
            for at, keyword in enumerate(keywords):
                if keyword.arg not in (None, "strict"):
                    yield ast.Call(function, given, keywords[:at] + keywords[at + 1 :])
        case ast.Return(value) if not isinstance(value, ast.Constant | None):
            yield ast.Return(ast.Constant(None))
        case ast.Expr(ast.Call()) | ast.Raise():
            yield ast.Pass()


def _sql(text: str) -> Iterator[str]:
    for was, now in _SQL:
        for found in re.finditer(re.escape(was), text):
            yield text[: found.start()] + now + text[found.end() :]
    for found in _SQL_TERM.finditer(text):
        left = " AND CAST(%s AS text) IS NOT NULL" if found[1] == "%s" else ""
        yield text[: found.start()] + left + text[found.end() :]


def _texts(old: ast.AST, new: ast.AST) -> tuple[str, str]:
    """Both on one line, and no more of them than tells the change."""
    if isinstance(old, ast.If) and isinstance(new, ast.If):
        old, new = old.test, new.test
    elif isinstance(old, ast.Call) and isinstance(new, ast.Call) and old.func is new.func:
        (dropped,) = [each for each in old.keywords if each not in new.keywords]
        return f"{ast.unparse(old.func)}({ast.unparse(dropped)})", f"{ast.unparse(old.func)}()"
    was, now = (" ".join(ast.unparse(node).split()) for node in (old, new))
    return was, now
