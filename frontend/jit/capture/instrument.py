"""A function's twin that tells a watcher what it reads, writes and calls.

The twin is compiled from the function's own source, with expressions that look outside of its local variables replaced by calls of a
watcher: `a.b` by `watch.attribute(a, "b")`, `f(x)` by `watch.call(f, x)`. Nothing is evaluated in another order. The source is checked
first: compiled as it stands it must give the function's own bytecode, so that a file that was edited since, or a function that something
else has changed, is never taken for the function.
"""

from __future__ import annotations
import __future__

import ast
import functools
import linecache
import operator
import sys
import types
from collections.abc import Iterator
from typing import Any

from polyreme.ir.diagnostics import Location
from polyreme.ir.python.records import dataclass
from polyreme.jit.capture.flow import WATCH, FlowError, with_calls

__all__ = ["NoTwin", "Twin", "twin_of"]

# What may be imported from __future__.
_FUTURE = functools.reduce(operator.or_, (getattr(__future__, name).compiler_flag for name in __future__.all_feature_names))
_FACTORY = "__polyreme_factory__"
_Function = ast.FunctionDef | ast.Lambda
_OPERATORS = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "truediv", ast.FloorDiv: "floordiv", ast.Mod: "mod", ast.Pow: "pow",
    ast.MatMult: "matmul",
    ast.LShift: "lshift", ast.RShift: "rshift", ast.BitAnd: "and_", ast.BitOr: "or_", ast.BitXor: "xor",
    ast.Eq: "eq", ast.NotEq: "ne", ast.Lt: "lt", ast.LtE: "le", ast.Gt: "gt", ast.GtE: "ge",
    ast.USub: "neg", ast.UAdd: "pos", ast.Invert: "invert",
}  # fmt: skip


class NoTwin(Exception):
    """A function that has none: why, and where."""

    def __init__(self, reason: str, location: Location):
        super().__init__(reason)
        self.reason = reason
        self.location = location


@dataclass(frozen=True)
class Twin:
    """The code of a twin, and all code in it, by which calls of functions that it makes are known."""

    code: types.CodeType
    inner: frozenset[types.CodeType]

    def bind(self, function: types.FunctionType, watch: Any) -> types.FunctionType:
        """The twin of one function of this code, with its defaults and its closure."""
        cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
        cells[WATCH] = types.CellType(watch)
        closure = tuple(cells[name] for name in self.code.co_freevars)
        twin = types.FunctionType(self.code, function.__globals__, function.__name__, function.__defaults__, closure)
        twin.__kwdefaults__ = function.__kwdefaults__
        return twin


@functools.lru_cache(maxsize=4096)
def twin_of(code: types.CodeType, flow: bool = False) -> Twin:
    """The twin of functions with this code, with `flow` one whose control flow are calls, too; `NoTwin` says why there is none."""
    start = Location(code.co_filename, code.co_firstlineno)
    if code.co_flags & (0x20 | 0x80 | 0x100 | 0x200):
        raise NoTwin("generators and coroutines run in parts", start)
    tree = _tree_of(code, start)
    node, owner = _node_of(tree, code, start)
    imported = _imported(tree)
    plain = _compiled(_standing_alone(node), code, owner, (), imported, start)
    if not _same(plain, code):
        raise NoTwin("its source is not what it was compiled from", start)
    alone = _standing_alone(node)
    try:
        alone = with_calls(alone) if flow else alone
    except FlowError as error:
        raise NoTwin(error.reason, Location(code.co_filename, getattr(error.node, "lineno", code.co_firstlineno))) from None
    made = _compiled(_Rewriter(code, owner, flow).rewrite(alone), code, owner, (WATCH,), imported, start)
    return Twin(made, frozenset(_all_code(made)))


def _all_code(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _all_code(constant)


def _same(a: types.CodeType, b: types.CodeType) -> bool:
    """Whether two codes do the same by their instructions, names and constants, those of inner functions included."""
    if (a.co_code, a.co_names, a.co_varnames, a.co_freevars, a.co_cellvars) != (
        b.co_code,
        b.co_names,
        b.co_varnames,
        b.co_freevars,
        b.co_cellvars,
    ):
        return False
    if len(a.co_consts) != len(b.co_consts):
        return False
    for x, y in zip(a.co_consts, b.co_consts, strict=True):
        if isinstance(x, types.CodeType) and isinstance(y, types.CodeType):
            if not _same(x, y):
                return False
        elif (type(x), repr(x)) != (type(y), repr(y)) and not isinstance(x, frozenset):
            return False
    return True


# --- finding the source


@functools.lru_cache(maxsize=64)
def _parsed(text: str) -> ast.Module | None:
    try:
        return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return None


def _tree_of(code: types.CodeType, start: Location) -> ast.Module:
    """The file that a code was compiled from."""
    lines = linecache.getlines(code.co_filename) or [_command_text(code.co_filename)]
    tree = _parsed("".join(lines)) if any(lines) else None
    if tree is None:
        raise NoTwin("its source cannot be read", start)
    return tree


def _command_text(file: str) -> str:
    """The program that `python -c` was given, if `file` may stand for it; whoever reads it compares what it compiles to."""
    # sys.argv is "-c" and what follows the program.
    at = len(sys.orig_argv) - len(sys.argv)
    return sys.orig_argv[at] if file == "<string>" and sys.argv[:1] == ["-c"] and at > 0 else ""


def _imported(tree: ast.Module) -> list[str]:
    """The names that a module imports: Python compiles calls of what belongs to them in another way."""
    found: list[str] = []
    waiting: list[ast.AST] = list(tree.body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            found += [alias.asname or alias.name.split(".")[0] for alias in node.names if alias.name != "*"]
        elif not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)):
            waiting += [child for child in ast.iter_child_nodes(node) if isinstance(child, (ast.stmt, ast.ExceptHandler))]
    return sorted(set(found))


def _node_of(tree: ast.Module, code: types.CodeType, start: Location) -> tuple[_Function, str]:
    """The function's node in its file, and the class that it stands in, whose name private names are mangled by."""
    found = [(node, owner) for node, owner in _functions(tree, "") if _may_be(node, code)]
    if len(found) > 1:
        # What has no width stands for the function's start, not for a place in it.
        positions = {(p[0], p[2]) for p in code.co_positions() if p[0] is not None and p[2] is not None and (p[0], p[2]) != (p[1], p[3])}
        found = [(node, owner) for node, owner in found if all(_within(node, *p) for p in positions)]
    if not found:
        raise NoTwin("its source cannot be found", start)
    return min(found, key=lambda entry: _extent(entry[0]))


def _functions(node: ast.AST, owner: str) -> Iterator[tuple[_Function, str]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.FunctionDef, ast.Lambda)):
            yield child, owner
        yield from _functions(child, child.name if isinstance(child, ast.ClassDef) else owner)


def _may_be(node: _Function, code: types.CodeType) -> bool:
    name = node.name if isinstance(node, ast.FunctionDef) else "<lambda>"
    decorators = node.decorator_list if isinstance(node, ast.FunctionDef) else []
    first = min([node.lineno, *(d.lineno for d in decorators)])
    return name == code.co_name and first == code.co_firstlineno


def _within(node: _Function, line: int, column: int) -> bool:
    if isinstance(node, ast.FunctionDef):
        return True
    assert node.end_lineno is not None and node.end_col_offset is not None
    return (node.lineno, node.col_offset) <= (line, column) < (node.end_lineno, node.end_col_offset)


def _extent(node: _Function) -> tuple[int, int]:
    assert node.end_lineno is not None and node.end_col_offset is not None
    return node.end_lineno - node.lineno, node.end_col_offset - node.col_offset


# --- compiling


def _standing_alone(node: _Function) -> _Function:
    """A copy without decorators, defaults and annotations: these belong to the definition, which has been run."""
    copy = _copied(node)
    if isinstance(copy, ast.FunctionDef):
        copy.decorator_list = []
        copy.returns = None
    arguments = copy.args
    nothing = ast.Constant(value=None, lineno=node.lineno, col_offset=0, end_lineno=node.lineno, end_col_offset=0)
    arguments.defaults = [nothing for _ in arguments.defaults]
    arguments.kw_defaults = [None if d is None else nothing for d in arguments.kw_defaults]
    for argument in [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]:
        if argument is not None:
            argument.annotation = None
    return copy


def _copied(node: Any) -> Any:
    if isinstance(node, ast.AST):
        made = type(node)(**{name: _copied(value) for name, value in ast.iter_fields(node)})
        return ast.copy_location(made, node)
    return [_copied(item) for item in node] if isinstance(node, list) else node


def _compiled(
    node: _Function, code: types.CodeType, owner: str, more: tuple[str, ...], imported: list[str], start: Location
) -> types.CodeType:
    """The code of the function `node` of a class `owner`, which takes the variables that `code` has from around it, and `more`; nothing is
    run.
    """
    names = [*code.co_freevars, *more]
    body: list[ast.stmt] = [node, ast.Return(ast.Constant(None))] if isinstance(node, ast.FunctionDef) else [ast.Return(node)]
    if isinstance(node, ast.FunctionDef) and node.name not in names:
        # Where it mentions itself it means what the module calls so.
        body.insert(0, ast.Global([node.name]))
    factory = ast.FunctionDef(
        name=_FACTORY,
        args=ast.arguments(
            posonlyargs=[],
            args=[ast.arg(arg=n) for n in names],
            vararg=None,
            kwonlyargs=[],
            kw_defaults=[],
            kwarg=None,
            defaults=[],
        ),
        body=body,
        decorator_list=[],
        returns=None,
    )
    if "type_params" in ast.FunctionDef._fields:
        factory.type_params = []  # type: ignore[attr-defined, unused-ignore]
    top: ast.stmt = factory
    if owner:
        # Private names are mangled by the class that they stand in.
        top = ast.ClassDef(name=owner, bases=[], keywords=[], body=[factory], decorator_list=[])
        if "type_params" in ast.ClassDef._fields:
            top.type_params = []  # type: ignore[attr-defined, unused-ignore]
    imports: list[ast.stmt] = [ast.Import(names=[ast.alias(name=name)]) for name in imported]
    module = ast.fix_missing_locations(ast.Module(body=[*imports, top], type_ignores=[]))
    flags = code.co_flags & _FUTURE
    try:
        whole = compile(module, code.co_filename, "exec", flags=flags, dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError) as error:
        raise NoTwin(f"its source cannot be compiled by itself ({error})", start) from None
    (outer,) = (c for c in _all_code(whole) if c.co_name == _FACTORY)
    inner = [c for c in outer.co_consts if isinstance(c, types.CodeType) and c.co_name == code.co_name]
    if len(inner) != 1:
        raise NoTwin("its source cannot be compiled by itself", start)
    return inner[0]


# --- rewriting


class _Scope:
    """The names that a function binds."""

    def __init__(self, node: ast.AST):
        self.bound: set[str] = set()
        self.declared: set[str] = set()
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            arguments = node.args
            for argument in [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]:
                if argument is not None:
                    self.bound.add(argument.arg)
            for child in node.body if isinstance(node.body, list) else [node.body]:
                self._look(child)
        else:
            for generator in node.generators:  # type: ignore[attr-defined]
                self._look(generator.target)
        self.bound -= self.declared

    def _look(self, node: ast.AST) -> None:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            self.bound.add(node.name)
            return
        if isinstance(node, ast.Lambda):
            return
        if isinstance(node, (ast.Global, ast.Nonlocal)):
            self.declared.update(node.names)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, (ast.Store, ast.Del)):
            self.bound.add(node.id)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            self.bound.update((alias.asname or alias.name.split(".")[0]) for alias in node.names)
        elif isinstance(node, ast.ExceptHandler) and node.name:
            self.bound.add(node.name)
        elif isinstance(node, (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)):
            # Its targets are its own; what `:=` binds in it is the function's.
            for inner in ast.walk(node):
                if isinstance(inner, ast.NamedExpr):
                    self.bound.add(inner.target.id)
            return
        for child in ast.iter_child_nodes(node):
            self._look(child)


class _Rewriter(ast.NodeTransformer):
    """Replaces what looks outside by calls of the watcher."""

    def __init__(self, code: types.CodeType, owner: str, flow: bool):
        self.code = code
        self.flow = flow
        self.owner = owner.lstrip("_")
        self.scopes: list[_Scope] = []
        self.count = 0

    def rewrite(self, node: _Function) -> _Function:
        return self._function(node)

    def refuse(self, what: str, node: ast.AST) -> NoTwin:
        return NoTwin(what, Location(self.code.co_filename, getattr(node, "lineno", self.code.co_firstlineno)))

    # --- names

    def _is_local(self, name: str) -> bool:
        return any(name in scope.bound for scope in self.scopes)

    def _mangled(self, name: str) -> str:
        return f"_{self.owner}{name}" if self.owner and name.startswith("__") and not name.endswith("__") else name

    def _watch(self, method: str, *arguments: ast.expr, at: ast.AST) -> ast.Call:
        target = ast.Attribute(value=ast.Name(id=WATCH, ctx=ast.Load()), attr=method, ctx=ast.Load())
        call = ast.Call(func=target, args=list(arguments), keywords=[])
        for part in (target.value, target, call):
            ast.copy_location(part, at)
        for argument in arguments:
            if not hasattr(argument, "lineno"):
                ast.copy_location(argument, at)
        return call

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if not isinstance(node.ctx, ast.Load) or self._is_local(node.id) or node.id == WATCH:
            return node
        name = self._mangled(node.id)
        if name in self.code.co_freevars:
            return self._watch("closure", ast.Constant(name), node, at=node) if name != "__class__" else node
        return self._watch("name", ast.Constant(name), at=node)

    # --- functions and scopes

    def _function(self, node: _Function) -> _Function:
        scope = _Scope(node)
        self.scopes.append(scope)
        if isinstance(node, ast.FunctionDef):
            node.body = self._statements(node.body)
        else:
            node.body = self.visit(node.body)
        self.scopes.pop()
        return node

    def _statements(self, body: list[ast.stmt]) -> list[ast.stmt]:
        made: list[ast.stmt] = []
        for i, statement in enumerate(body):
            if (
                i == 0
                and isinstance(statement, ast.Expr)
                and isinstance(statement.value, ast.Constant)
                and isinstance(statement.value.value, str)
            ):
                made.append(statement)  # a docstring
                continue
            done = self.visit(statement)
            made += done if isinstance(done, list) else [done]
        return made

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        if node.decorator_list:
            raise self.refuse("a decorated function is defined", node)
        if any(isinstance(inner, (ast.Yield, ast.YieldFrom)) for inner in ast.walk(node)):
            raise self.refuse("a generator is defined", node)
        node.returns = None
        for argument in [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs, node.args.vararg, node.args.kwarg]:
            if argument is not None:
                argument.annotation = None
        node.args.defaults = [self.visit(d) for d in node.args.defaults]
        node.args.kw_defaults = [None if d is None else self.visit(d) for d in node.args.kw_defaults]
        return self._function(node)

    def visit_Lambda(self, node: ast.Lambda) -> ast.AST:
        node.args.defaults = [self.visit(d) for d in node.args.defaults]
        node.args.kw_defaults = [None if d is None else self.visit(d) for d in node.args.kw_defaults]
        return self._function(node)

    def _comprehension(self, node: Any) -> ast.AST:
        first = self._iterated(node.generators[0].iter, node.generators[0].target)
        self.scopes.append(_Scope(node))
        for i, generator in enumerate(node.generators):
            generator.iter = first if i == 0 else self._iterated(generator.iter, generator.target)
            generator.target = self._plain_target(generator.target)
            generator.ifs = [self._tested(test) for test in generator.ifs]
            if generator.is_async:
                raise self.refuse("something is awaited", node)
        for part in ("elt", "key", "value"):
            if hasattr(node, part):
                setattr(node, part, self.visit(getattr(node, part)))
        self.scopes.pop()
        return self._new(node) if not isinstance(node, ast.GeneratorExp) else node

    def _new(self, node: ast.expr) -> ast.expr:
        """A list, dict or set that is made."""
        noted = self.flow or isinstance(node, (ast.Set, ast.Dict, ast.SetComp, ast.DictComp))
        return self._watch("made", node, at=node) if noted and isinstance(getattr(node, "ctx", ast.Load()), ast.Load) else node

    def visit_List(self, node: ast.List) -> ast.expr:
        self.generic_visit(node)
        return self._new(node)

    def visit_Set(self, node: ast.Set) -> ast.expr:
        self.generic_visit(node)
        return self._new(node)

    visit_ListComp = visit_SetComp = visit_DictComp = visit_GeneratorExp = _comprehension

    def _iterated(self, node: ast.expr, target: ast.expr) -> ast.expr:
        """What a loop goes over, whose elements are unpacked where there are several names for them."""
        depth = _depth(target)
        return self._watch("rows" if depth else "iterate", self.visit(node), *[ast.Constant(depth)] * bool(depth), at=node)

    def _tested(self, node: ast.expr) -> ast.expr:
        if isinstance(node, ast.Compare) and all(isinstance(op, (ast.Is, ast.IsNot)) for op in node.ops):
            return self.visit(node)
        return self._watch("truth", self.visit(node), at=node)

    def _plain_target(self, node: ast.expr) -> ast.expr:
        for inner in ast.walk(node):
            if isinstance(inner, (ast.Attribute, ast.Subscript)):
                raise self.refuse("a loop's variable is an attribute or an element", inner)
        return node

    # --- expressions

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        return self._watch("attribute", self.visit(node.value), ast.Constant(self._mangled(node.attr)), at=node)

    def _key(self, node: ast.expr) -> ast.expr:
        if isinstance(node, ast.Slice):
            parts = [ast.Constant(None) if part is None else self.visit(part) for part in (node.lower, node.upper, node.step)]
            return self._watch("slice", *parts, at=node)
        if isinstance(node, ast.Tuple):
            made = ast.Tuple(elts=[self._key(element) for element in node.elts], ctx=ast.Load())
            return ast.copy_location(made, node)
        return self.visit(node)

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        return self._watch("item", self.visit(node.value), self._key(node.slice), at=node)

    def visit_Call(self, node: ast.Call) -> ast.expr:
        if isinstance(node.func, ast.Name) and node.func.id == "super" and not self._is_local("super"):
            ours = len(node.args) == 2 and isinstance(node.args[0], ast.Name) and node.args[0].id == "__class__"
            if (node.args or node.keywords) and not ours:
                raise self.refuse("super() is called with arguments", node)
            return node
        if isinstance(node.func, ast.Attribute) and isinstance(node.func.value, ast.Name) and node.func.value.id == WATCH:
            node.args = [self.visit(a) for a in node.args]
            return node
        call = self._watch("call", self.visit(node.func), *[self.visit(a) for a in node.args], at=node)
        for keyword in node.keywords:
            value = self.visit(keyword.value)
            value = self._watch("iterate", value, at=keyword.value) if keyword.arg is None else value
            call.keywords.append(ast.copy_location(ast.keyword(arg=keyword.arg, value=value), keyword))
        return call

    def visit_Starred(self, node: ast.Starred) -> ast.expr:
        if isinstance(node.ctx, ast.Load):
            return ast.copy_location(ast.Starred(value=self._watch("iterate", self.visit(node.value), at=node), ctx=node.ctx), node)
        self.generic_visit(node)
        return node

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        return self._watch("operator", ast.Constant(_OPERATORS[type(node.op)]), self.visit(node.left), self.visit(node.right), at=node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.expr:
        if isinstance(node.op, ast.Not):
            return ast.copy_location(ast.UnaryOp(op=node.op, operand=self._tested(node.operand)), node)
        if isinstance(node.operand, ast.Constant):
            return node
        return self._watch("operator", ast.Constant(_OPERATORS[type(node.op)]), self.visit(node.operand), at=node)

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.expr:
        *first, last = node.values
        # Their values may be the result: `a or b` is `a` if that holds.
        node.values = [*[self._watch("tested", self.visit(value), at=value) for value in first], self.visit(last)]
        return node

    def visit_Compare(self, node: ast.Compare) -> ast.expr:
        if len(node.ops) == 1:
            (op,), (right,) = node.ops, node.comparators
            if isinstance(op, (ast.Is, ast.IsNot)):
                self.generic_visit(node)
                if isinstance(node.left, ast.Constant) or isinstance(right, ast.Constant):
                    return node
                same = self._watch("same", node.left, node.comparators[0], at=node)
                return same if isinstance(op, ast.Is) else ast.copy_location(ast.UnaryOp(op=ast.Not(), operand=same), node)
            if isinstance(op, (ast.In, ast.NotIn)):
                found: ast.expr = self._watch("contains", self.visit(node.left), self.visit(right), at=node)
                return found if isinstance(op, ast.In) else ast.copy_location(ast.UnaryOp(op=ast.Not(), operand=found), node)
            return self._watch("operator", ast.Constant(_OPERATORS[type(op)]), self.visit(node.left), self.visit(right), at=node)
        # a < b < c is `a < b and b < c` with b computed once.
        left: ast.expr = node.left
        parts: list[ast.expr] = []
        for i, (op, right) in enumerate(zip(node.ops, node.comparators, strict=True)):
            if i < len(node.ops) - 1:
                name = self._temporary()
                held = ast.NamedExpr(target=ast.Name(id=name, ctx=ast.Store()), value=right)
                parts.append(ast.Compare(left=left, ops=[op], comparators=[held]))
                left = ast.Name(id=name, ctx=ast.Load())
            else:
                parts.append(ast.Compare(left=left, ops=[op], comparators=[right]))
        chain = ast.BoolOp(op=ast.And(), values=parts)
        for part in ast.walk(chain):
            if not hasattr(part, "lineno"):
                ast.copy_location(part, node)
        return self.visit(chain)

    def _temporary(self) -> str:
        self.count += 1
        name = f"__polyreme_{self.count}__"
        # In a comprehension `:=` binds in the function around it.
        self.scopes[0].bound.add(name)
        return name

    def visit_IfExp(self, node: ast.IfExp) -> ast.expr:
        node.test = self._tested(node.test)
        node.body, node.orelse = self.visit(node.body), self.visit(node.orelse)
        return node

    def visit_FormattedValue(self, node: ast.FormattedValue) -> ast.expr:
        node.value = self._watch("shown", self.visit(node.value), at=node.value)
        if node.format_spec is not None:
            node.format_spec = self.visit(node.format_spec)
        return node

    def visit_Dict(self, node: ast.Dict) -> ast.expr:
        values = [
            self._watch("iterate", self.visit(v), at=v) if k is None else self.visit(v) for k, v in zip(node.keys, node.values, strict=True)
        ]
        node.keys, node.values = [None if k is None else self.visit(k) for k in node.keys], values
        return self._new(node)

    def visit_Await(self, node: ast.AST) -> ast.AST:
        raise self.refuse("something is awaited", node)

    def visit_Yield(self, node: ast.AST) -> ast.AST:
        raise self.refuse("a generator runs in parts", node)

    visit_YieldFrom = visit_Yield

    # --- statements

    def visit_If(self, node: ast.If) -> ast.stmt:
        node.test = self._tested(node.test)
        node.body, node.orelse = self._block(node.body), self._block(node.orelse)
        return node

    def _block(self, body: list[ast.stmt]) -> list[ast.stmt]:
        made: list[ast.stmt] = []
        for statement in body:
            done = self.visit(statement)
            made += done if isinstance(done, list) else [done]
        return made

    def visit_While(self, node: ast.While) -> ast.stmt:
        node.test = self._tested(node.test)
        node.body, node.orelse = self._block(node.body), self._block(node.orelse)
        return node

    def visit_For(self, node: ast.For) -> ast.stmt:
        node.iter = self._iterated(node.iter, node.target)
        node.target = self._plain_target(node.target)
        node.body, node.orelse = self._block(node.body), self._block(node.orelse)
        return node

    def visit_Assert(self, node: ast.Assert) -> ast.stmt:
        said = ast.Constant(None) if node.msg is None else self.visit(node.msg)
        no_arguments = ast.arguments(posonlyargs=[], args=[], vararg=None, kwonlyargs=[], kw_defaults=[], kwarg=None, defaults=[])
        node.test = self._watch("passes", self.visit(node.test), ast.Lambda(args=no_arguments, body=said), at=node.test)
        node.msg = None if node.msg is None else said
        return node

    def visit_With(self, node: ast.With) -> ast.stmt:
        for item in node.items:
            item.context_expr = self._watch("manager", self.visit(item.context_expr), at=item.context_expr)
            if item.optional_vars is not None:
                item.optional_vars = self._plain_target(item.optional_vars)
        node.body = self._block(node.body)
        return node

    def _stored(self, target: ast.expr, value: ast.expr) -> list[ast.stmt]:
        """The statements that give `value`, which stands in a variable unless `target` takes it at once, to `target`."""
        if isinstance(target, ast.Name):
            if not self._is_local(target.id):
                raise self.refuse(f"the variable '{target.id}' outside of the function is assigned", target)
            return [ast.copy_location(ast.Assign(targets=[target], value=value), target)]
        if isinstance(target, ast.Attribute):
            call = self._watch("set_attribute", self.visit(target.value), ast.Constant(self._mangled(target.attr)), value, at=target)
            return [ast.copy_location(ast.Expr(call), target)]
        if isinstance(target, ast.Subscript):
            call = self._watch("set_item", self.visit(target.value), self._key(target.slice), value, at=target)
            return [ast.copy_location(ast.Expr(call), target)]
        if isinstance(target, (ast.Tuple, ast.List)):
            names: list[ast.expr] = []
            after: list[ast.stmt] = []
            for element in target.elts:
                starred = isinstance(element, ast.Starred)
                inner = element.value if isinstance(element, ast.Starred) else element
                if isinstance(inner, ast.Name):
                    names.append(element)
                    continue
                name = self._temporary()
                held: ast.expr = ast.copy_location(ast.Name(id=name, ctx=ast.Store()), inner)
                names.append(ast.copy_location(ast.Starred(value=held, ctx=ast.Store()), element) if starred else held)
                after += self._stored(inner, ast.copy_location(ast.Name(id=name, ctx=ast.Load()), inner))
            unpacked = ast.copy_location(ast.Tuple(elts=names, ctx=ast.Store()), target)
            return [ast.copy_location(ast.Assign(targets=[unpacked], value=self._watch("iterate", value, at=target)), target), *after]
        raise self.refuse("an unusual target is assigned", target)

    def visit_Assign(self, node: ast.Assign) -> list[ast.stmt]:
        value = self.visit(node.value)
        if len(node.targets) == 1:
            target = node.targets[0]
            if isinstance(target, (ast.Attribute, ast.Subscript)):
                # Python computes the value before it looks at the target.
                name = self._temporary()
                return [self._kept(name, value), *self._stored(target, ast.copy_location(ast.Name(id=name, ctx=ast.Load()), node))]
            return [self._placed(s, node) for s in self._stored(target, value)]
        name = self._temporary()
        made: list[ast.stmt] = [self._kept(name, value)]
        for target in node.targets:
            made += self._stored(target, ast.copy_location(ast.Name(id=name, ctx=ast.Load()), node))
        return made

    def _kept(self, name: str, value: ast.expr) -> ast.stmt:
        target = ast.copy_location(ast.Name(id=name, ctx=ast.Store()), value)
        return ast.copy_location(ast.Assign(targets=[target], value=value), value)

    def _placed(self, statement: ast.stmt, node: ast.AST) -> ast.stmt:
        return ast.copy_location(statement, node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> list[ast.stmt]:
        if node.value is None:
            return [ast.copy_location(ast.Pass(), node)]
        return self.visit_Assign(ast.copy_location(ast.Assign(targets=[node.target], value=node.value), node))

    def visit_AugAssign(self, node: ast.AugAssign) -> list[ast.stmt]:
        kind = ast.Constant("i" + _OPERATORS[type(node.op)].rstrip("_"))
        target = node.target
        if isinstance(target, ast.Name):
            if not self._is_local(target.id):
                raise self.refuse(f"the variable '{target.id}' outside of the function is assigned", node)
            before: ast.expr = ast.copy_location(ast.Name(id=target.id, ctx=ast.Load()), target)
            value = self._watch("operator", kind, before, self.visit(node.value), at=node)
            return [ast.copy_location(ast.Assign(targets=[target], value=value), node)]
        holder, key = self._temporary(), self._temporary()
        load = lambda name: ast.copy_location(ast.Name(id=name, ctx=ast.Load()), node)
        made = [self._kept(holder, self.visit(target.value))]
        if isinstance(target, ast.Attribute):
            name = ast.Constant(self._mangled(target.attr))
            old = self._watch("attribute", load(holder), name, at=node)
            new = self._watch("operator", kind, old, self.visit(node.value), at=node)
            call = self._watch("set_attribute", load(holder), ast.Constant(name.value), new, at=node)
        else:
            made.append(self._kept(key, self._key(target.slice)))
            old = self._watch("item", load(holder), load(key), at=node)
            new = self._watch("operator", kind, old, self.visit(node.value), at=node)
            call = self._watch("set_item", load(holder), load(key), new, at=node)
        return [*made, ast.copy_location(ast.Expr(call), node)]

    def visit_Delete(self, node: ast.Delete) -> list[ast.stmt]:
        made: list[ast.stmt] = []
        for target in node.targets:
            if isinstance(target, ast.Attribute):
                call = self._watch("delete_attribute", self.visit(target.value), ast.Constant(self._mangled(target.attr)), at=target)
                made.append(ast.copy_location(ast.Expr(call), node))
            elif isinstance(target, ast.Subscript):
                call = self._watch("delete_item", self.visit(target.value), self._key(target.slice), at=target)
                made.append(ast.copy_location(ast.Expr(call), node))
            elif isinstance(target, ast.Name) and self._is_local(target.id):
                made.append(ast.copy_location(ast.Delete(targets=[target]), node))
            else:
                raise self.refuse("an unusual target is deleted", node)
        return made

    def visit_NamedExpr(self, node: ast.NamedExpr) -> ast.expr:
        if not self._is_local(node.target.id):
            raise self.refuse(f"the variable '{node.target.id}' outside of the function is assigned", node)
        node.value = self.visit(node.value)
        return node

    def visit_Import(self, node: ast.Import) -> ast.AST:
        return node

    def visit_ImportFrom(self, node: ast.ImportFrom) -> list[ast.stmt]:
        if node.level or node.module is None or any(alias.name == "*" for alias in node.names):
            raise self.refuse("something is imported from where the function stands", node)
        made: list[ast.stmt] = [node]
        for alias in node.names:
            name = alias.asname or alias.name
            value = self._watch("imported", ast.Constant(node.module), ast.Constant(alias.name), ast.Name(id=name, ctx=ast.Load()), at=node)
            made.append(
                ast.copy_location(ast.Assign(targets=[ast.copy_location(ast.Name(id=name, ctx=ast.Store()), node)], value=value), node)
            )
        return made

    def visit_Global(self, node: ast.Global | ast.Nonlocal) -> ast.stmt:
        if getattr(node, "ours", False):
            return node
        raise self.refuse(f"the variable '{node.names[0]}' outside of the function is assigned", node)

    visit_Nonlocal = visit_Global

    def visit_Try(self, node: ast.stmt) -> ast.stmt:
        raise self.refuse("errors are caught", node)

    visit_TryStar = visit_Try

    def visit_ClassDef(self, node: ast.stmt) -> ast.stmt:
        raise self.refuse("a class is defined", node)

    def visit_Match(self, node: ast.stmt) -> ast.stmt:
        raise self.refuse("a match statement", node)

    def visit_AsyncFunctionDef(self, node: ast.stmt) -> ast.stmt:
        raise self.refuse("something is awaited", node)

    visit_AsyncFor = visit_AsyncWith = visit_AsyncFunctionDef


def _depth(target: ast.expr) -> int:
    """How deep a value is unpacked into a target: 0 for a name."""
    return 1 + max(map(_depth, target.elts), default=0) if isinstance(target, (ast.Tuple, ast.List)) else 0
