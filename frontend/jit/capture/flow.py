"""Python's control flow as calls of a watcher, so that what a tensor decides can become a branch or a loop of the program.

The rewriting is from Python to Python, done on a function's syntax tree before `instrument.py` has its reads and writes reported. An `if`
becomes two local functions and a call that chooses between them; a loop a condition, a body and a call that repeats them. Variables that
these assign stay those of the function (`nonlocal`), with a pair of functions that get and set all of them. `break`, `continue` and
`return` are taken out first: they set flags, and what follows is done where no flag is set; what follows an `if` that may return goes into
its branches.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from typing import Any

__all__ = ["FlowError", "with_calls"]

WATCH = "__polyreme_watch__"
# Statements that a function may have in the end: what follows a return is written once for each way to get there.
MOST_STATEMENTS = 2000
_Function = ast.FunctionDef | ast.Lambda


class FlowError(Exception):
    """Control flow that is not rewritten: what, and the node."""

    def __init__(self, reason: str, node: ast.AST):
        super().__init__(reason)
        self.reason = reason
        self.node = node


def with_calls(node: _Function) -> _Function:
    """The function (a copy that may be changed) with its control flow as calls."""
    if isinstance(node, ast.Lambda):
        node.body = _Expressions(node).visit(node.body)
        return node
    return _Statements(node).rewritten()


# --- small pieces of syntax


def _placed(node: Any, at: ast.AST) -> Any:
    for part in ast.walk(node):
        if not hasattr(part, "lineno") and isinstance(part, (ast.expr, ast.stmt, ast.arg, ast.keyword)):
            ast.copy_location(part, at)
    return node


def _load(name: str) -> ast.Name:
    return ast.Name(id=name, ctx=ast.Load())


def _assigned(name: str, value: ast.expr) -> ast.Assign:
    return ast.Assign(targets=[ast.Name(id=name, ctx=ast.Store())], value=value)


def _watch(method: str, *arguments: ast.expr) -> ast.Call:
    return ast.Call(func=ast.Attribute(value=_load(WATCH), attr=method, ctx=ast.Load()), args=list(arguments), keywords=[])


def _names(names: Sequence[str]) -> ast.Tuple:
    return ast.Tuple(elts=[ast.Constant(name) for name in names], ctx=ast.Load())


def _thunk(body: ast.expr) -> ast.Lambda:
    for part in ast.walk(body):
        if isinstance(part, ast.NamedExpr):
            # It would be a variable of the lambda.
            raise FlowError(f"'{part.target.id}' is assigned by ':=' in a part of an expression that is not always computed", part)
    return ast.Lambda(
        args=ast.arguments(posonlyargs=[], args=[], vararg=None, kwonlyargs=[], kw_defaults=[], kwarg=None, defaults=[]), body=body
    )


def _function(name: str, parameters: Sequence[str], body: list[ast.stmt], outer: Sequence[str]) -> ast.FunctionDef:
    """A local function whose variables `outer` are those of the function around it."""
    declared: list[ast.stmt] = []
    if outer:
        nonlocal_ = ast.Nonlocal(names=list(outer))
        nonlocal_.ours = True  # type: ignore[attr-defined]
        declared = [nonlocal_]
    made = ast.FunctionDef(
        name=name,
        args=ast.arguments(
            posonlyargs=[],
            args=[ast.arg(arg=p) for p in parameters],
            vararg=None,
            kwonlyargs=[],
            kw_defaults=[],
            kwarg=None,
            defaults=[],
        ),
        body=[*declared, *(body or [ast.Pass()])],
        decorator_list=[],
        returns=None,
    )
    if "type_params" in ast.FunctionDef._fields:
        made.type_params = []  # type: ignore[attr-defined, unused-ignore]
    return made


def _inner(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a function, but not those of functions and classes in it."""
    yield node
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield child
        elif not isinstance(child, ast.Lambda):
            yield from _inner(child)


def _has(nodes: Sequence[ast.AST], kinds: tuple[type, ...], loops: bool = True) -> bool:
    """Whether a node of these kinds stands among `nodes`; without `loops` not those in loops of their own."""
    waiting = list(nodes)
    while waiting:
        node = waiting.pop()
        if isinstance(node, kinds):
            return True
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)):
            continue
        if not loops and isinstance(node, (ast.For, ast.While)):
            waiting += node.orelse
            continue
        waiting += ast.iter_child_nodes(node)
    return False


def _stores(nodes: Sequence[ast.AST]) -> list[str]:
    """The names that are assigned, in order of their first assignment."""
    found: dict[str, None] = {}
    for node in nodes:
        for part in _inner(node):
            if isinstance(part, ast.Name) and isinstance(part.ctx, (ast.Store, ast.Del)) and not _in_comprehension(part, node):
                found[part.id] = None
            elif isinstance(part, (ast.FunctionDef, ast.ClassDef)):
                found[part.name] = None
            elif isinstance(part, (ast.Import, ast.ImportFrom)):
                found.update(dict.fromkeys(alias.asname or alias.name.split(".")[0] for alias in part.names))
    return list(found)


def _in_comprehension(name: ast.Name, root: ast.AST) -> bool:
    """Whether a name is the target of a comprehension, which has it for itself."""
    for part in ast.walk(root):
        if isinstance(part, ast.comprehension) and any(n is name for n in ast.walk(part.target)):
            return True
    return False


def _loads(nodes: Sequence[ast.AST]) -> set[str]:
    """The names that are read, those in inner functions included."""
    return {part.id for node in nodes for part in ast.walk(node) if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Load)}


def _loads_later(node: ast.FunctionDef) -> set[str]:
    """The names that are read by what a function defines, which sees what they are when it is called."""
    return _loads(
        [part for part in ast.walk(node) if part is not node and isinstance(part, (ast.FunctionDef, ast.Lambda, ast.GeneratorExp))]
    )


def _loaded_first(nodes: Sequence[ast.AST]) -> set[str]:
    """The names that may be read before they are assigned, if statements run in their order."""
    first: dict[str, bool] = {}

    def see(node: ast.AST) -> None:
        if isinstance(node, ast.Name):
            first.setdefault(node.id, isinstance(node.ctx, ast.Load))
        elif isinstance(node, ast.AugAssign):
            see(node.value)
            for part in ast.walk(node.target):
                if isinstance(part, ast.Name):
                    first.setdefault(part.id, True)
        elif isinstance(node, (ast.Assign, ast.AnnAssign, ast.NamedExpr)):
            if node.value is not None:
                see(node.value)
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                see(target)
        elif isinstance(node, ast.For):
            see(node.iter)
            see(node.target)
            _branches([node.body, node.orelse])
        elif isinstance(node, ast.If):
            see(node.test)
            _branches([node.body, node.orelse])
        elif isinstance(node, ast.While):
            see(node.test)
            _branches([node.body, node.orelse])
        else:
            for child in ast.iter_child_nodes(node):
                see(child)

    def _branches(blocks: Sequence[Sequence[ast.stmt]]) -> None:
        # What only one way assigns may be read behind with its value from before.
        for block in blocks:
            before = dict(first)
            for statement in block:
                see(statement)
            for name in [n for n in first if n not in before and not first[n]]:
                del first[name]

    for node in nodes:
        see(node)
    return {name for name, read in first.items() if read}


def _always_leaves(body: Sequence[ast.stmt]) -> bool:
    """Whether a block ends with a return or an error, whatever happens in it."""
    if not body:
        return False
    last = body[-1]
    if isinstance(last, (ast.Return, ast.Raise)):
        return True
    return isinstance(last, ast.If) and _always_leaves(last.body) and _always_leaves(last.orelse)


# --- expressions


class _Expressions(ast.NodeTransformer):
    """Choices within expressions: `a if c else b`, `and`, `or`, `not`, chains of comparisons."""

    def __init__(self, owner: ast.AST):
        self.owner = owner

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        return with_calls(node)

    def visit_Lambda(self, node: ast.Lambda) -> ast.AST:
        return with_calls(node)

    def visit_IfExp(self, node: ast.IfExp) -> ast.expr:
        test, body, orelse = self.condition(node.test), self.visit(node.body), self.visit(node.orelse)
        return _placed(_watch("select", test, _thunk(body), _thunk(orelse)), node)

    def condition(self, node: ast.expr) -> ast.expr:
        """A condition, of which only the truth matters."""
        if isinstance(node, ast.BoolOp):
            method = "both" if isinstance(node.op, ast.And) else "either"
            made = self.condition(node.values[-1])
            for value in reversed(node.values[:-1]):
                made = _watch(method, self.condition(value), _thunk(made))
            return _placed(made, node)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            return _placed(_watch("negated", self.condition(node.operand)), node)
        if isinstance(node, ast.Compare) and len(node.ops) > 1:
            return self.condition(self._chain(node))
        return self.visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.expr:
        method = "and_value" if isinstance(node.op, ast.And) else "or_value"
        made = self.visit(node.values[-1])
        for value in reversed(node.values[:-1]):
            made = _watch(method, self.visit(value), _thunk(made))
        return _placed(made, node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.expr:
        if isinstance(node.op, ast.Not):
            return self.condition(node)
        self.generic_visit(node)
        return node

    def visit_Compare(self, node: ast.Compare) -> ast.expr:
        if len(node.ops) > 1:
            return self.visit(self._chain(node))
        self.generic_visit(node)
        return node

    def _chain(self, node: ast.Compare) -> ast.expr:
        """`a < b < c` as `a < b and b < c`, where `b` must be cheap to read again."""
        middle = node.comparators[:-1]
        if not all(isinstance(m, (ast.Name, ast.Constant)) for m in middle):
            raise FlowError("a chain of comparisons has something computed in its middle", node)
        lefts = [node.left, *middle]
        parts: list[ast.expr] = [
            ast.Compare(left=left, ops=[op], comparators=[right]) for left, op, right in zip(lefts, node.ops, node.comparators, strict=True)
        ]
        return _placed(ast.BoolOp(op=ast.And(), values=parts), node)

    def visit_Call(self, node: ast.Call) -> ast.expr:
        self.generic_visit(node)
        if isinstance(node.func, ast.Name) and node.func.id == "super" and not node.args and isinstance(self.owner, ast.FunctionDef):
            first = [*self.owner.args.posonlyargs, *self.owner.args.args]
            if first:
                # Branches are functions of their own, where `super()` would not know whose.
                node.args = [_placed(_load("__class__"), node), _placed(_load(first[0].arg), node)]
        return node


# --- statements


class _Statements:
    """The statements of one function."""

    def __init__(self, node: ast.FunctionDef):
        self.node = node
        self.expressions = _Expressions(node)
        self.count = 0
        self.statements = 0
        self.shared: dict[str, None] = {}  # variables that local functions assign
        if any(isinstance(n, (ast.Global, ast.Nonlocal)) for n in _inner(node)):
            raise FlowError("a variable outside of the function is assigned", node)

    def name(self, what: str) -> str:
        self.count += 1
        return f"__polyreme_{what}_{self.count}__"

    def rewritten(self) -> ast.FunctionDef:
        node = self.node
        body = list(node.body)
        doc = (
            [body.pop(0)]
            if body and isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant) and isinstance(body[0].value.value, str)
            else []
        )
        # Names that are read behind the statements: at the end of a function those of its local functions, which may be called later on.
        made = self.block(self.jumps(body, None), _loads_later(node))
        parameters = {
            a.arg
            for a in [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs, node.args.vararg, node.args.kwarg]
            if a is not None
        }
        unset = [name for name in self.shared if name not in parameters]
        first = [_placed(_assigned(name, _watch("undefined")), node) for name in unset]
        node.body = [*doc, *first, *made] or [ast.Pass()]
        return ast.fix_missing_locations(node)

    # --- break, continue, return

    def jumps(self, body: list[ast.stmt], loop: tuple[str, str, str, str] | None) -> list[ast.stmt]:
        """Statements without `break` and `continue`, and in loops without `return`: flags are set, (left, skipped, returned, the value) as
        `loop` calls them.
        """
        made: list[ast.stmt] = []
        for i, statement in enumerate(body):
            if isinstance(statement, ast.Break):
                assert loop is not None
                return [*made, _placed(_assigned(loop[0], ast.Constant(True)), statement)]
            if isinstance(statement, ast.Continue):
                assert loop is not None
                return [*made, _placed(_assigned(loop[1], ast.Constant(True)), statement)]
            if isinstance(statement, ast.Return) and loop is not None:
                value = statement.value if statement.value is not None else ast.Constant(None)
                return [
                    *made,
                    _placed(_assigned(loop[3], value), statement),
                    _placed(_assigned(loop[2], ast.Constant(True)), statement),
                    _placed(_assigned(loop[0], ast.Constant(True)), statement),
                ]
            if isinstance(statement, (ast.For, ast.While)):
                made += self.loop_jumps(statement, loop)
                if loop is None or not _has([statement], (ast.Return,)):
                    continue
                leaves = True
            else:
                leaves = loop is not None and _has([statement], (ast.Break, ast.Continue, ast.Return), loops=False)
                if isinstance(statement, ast.If):
                    statement = ast.copy_location(
                        ast.If(
                            test=statement.test,
                            body=self.jumps(statement.body, loop) or [ast.Pass()],
                            orelse=self.jumps(statement.orelse, loop),
                        ),
                        statement,
                    )
                elif isinstance(statement, ast.With):
                    if leaves:
                        raise FlowError("a 'with' is left in its middle", statement)
                    statement = ast.copy_location(ast.With(items=statement.items, body=self.jumps(statement.body, loop)), statement)
                elif leaves or isinstance(statement, (ast.Try, ast.Match)):
                    raise FlowError("errors are caught", statement)
                made.append(statement)
            rest = self.jumps(body[i + 1 :], loop) if leaves else []
            if leaves:
                assert loop is not None
                if rest:
                    flags = ast.BoolOp(op=ast.Or(), values=[_load(loop[0]), _load(loop[1])])
                    made.append(_placed(ast.If(test=ast.UnaryOp(op=ast.Not(), operand=flags), body=rest, orelse=[]), statement))
                return made
        return made

    def loop_jumps(self, statement: ast.For | ast.While, outer: tuple[str, str, str, str] | None) -> list[ast.stmt]:
        """A loop without jumps, with what comes before and behind it."""
        left, skipped, returned, value = flags = self.name("left"), self.name("skipped"), self.name("returned"), self.name("value")
        returns = _has(statement.body, (ast.Return,))
        breaks = returns or _has(statement.body, (ast.Break,), loops=False)
        continues = breaks or _has(statement.body, (ast.Continue,), loops=False)
        if statement.orelse:
            raise FlowError("a loop has an 'else'", statement)
        body = self.jumps(statement.body, flags)
        if continues:
            body.insert(0, _assigned(skipped, ast.Constant(False)))
        before: list[ast.stmt] = []
        if continues:
            before = [_assigned(left, ast.Constant(False)), _assigned(skipped, ast.Constant(False))]
        if returns:
            before += [_assigned(returned, ast.Constant(False)), _assigned(value, _watch("undefined"))]
        made: ast.For | ast.While
        if isinstance(statement, ast.While):
            test = statement.test
            if _has([test], (ast.NamedExpr,)):
                # What it assigns is read behind it: it is a statement, in front of the loop and at the end of each round.
                again = self.name("again")
                first, later = _copies(
                    [
                        _placed(_assigned(again, ast.UnaryOp(op=ast.Not(), operand=ast.UnaryOp(op=ast.Not(), operand=test))), statement)
                        for _ in range(2)
                    ]
                )
                before.append(first)
                unless_left = ast.If(test=ast.UnaryOp(op=ast.Not(), operand=_load(left)), body=[later], orelse=[])
                body.append(_placed(unless_left, statement) if breaks else later)
                test = _placed(_load(again), statement)
            if breaks:
                test = ast.BoolOp(op=ast.And(), values=[ast.UnaryOp(op=ast.Not(), operand=_load(left)), test])
            made = ast.While(test=test, body=body, orelse=[])
        else:
            made = ast.For(target=statement.target, iter=statement.iter, body=body, orelse=[])
            made.flag = left if breaks else ""  # type: ignore[attr-defined]
        ast.copy_location(made, statement)
        behind: list[ast.stmt] = []
        if returns:
            if outer is None:
                behind = [ast.If(test=_load(returned), body=[ast.Return(_load(value))], orelse=[])]
            else:
                leave: list[ast.stmt] = [
                    _assigned(outer[3], _load(value)),
                    _assigned(outer[2], ast.Constant(True)),
                    _assigned(outer[0], ast.Constant(True)),
                ]
                behind = [ast.If(test=_load(returned), body=leave, orelse=[])]
        return [*(_placed(s, statement) for s in before), _placed(made, statement), *(_placed(s, statement) for s in behind)]

    # --- branches and loops

    def block(self, body: Sequence[ast.stmt], after: set[str]) -> list[ast.stmt]:
        """Statements with calls, where `after` are the names that may be read behind them."""
        made: list[ast.stmt] = []
        for i, statement in enumerate(body):
            self.statements += 1
            if self.statements > MOST_STATEMENTS:
                raise FlowError("there are too many ways through the function", statement)
            rest = body[i + 1 :]
            behind = after | _loaded_first(rest)
            if isinstance(statement, ast.If):
                if _has([statement], (ast.Return,)):
                    return [*made, *self.choice(statement, list(rest), after)]
                made += self.branch(statement, behind)
            elif isinstance(statement, ast.While):
                made += self.loop(statement, behind)
            elif isinstance(statement, ast.For):
                made += self.each(statement, behind)
            elif isinstance(statement, ast.With):
                statement.items = [
                    ast.withitem(context_expr=self.expressions.visit(item.context_expr), optional_vars=item.optional_vars)
                    for item in statement.items
                ]
                if _has(statement.body, (ast.Return,)) and _has(statement.body, (ast.If,)):
                    raise FlowError("a 'with' is left in its middle", statement)
                statement.body = self.block(statement.body, behind)
                made.append(statement)
            elif isinstance(statement, ast.Delete) and all(isinstance(target, ast.Name) for target in statement.targets):
                # Branches and loops get and set all their variables, so that none may be missing.
                made += [
                    _placed(_assigned(target.id, _watch("undefined")), statement)
                    for target in statement.targets
                    if isinstance(target, ast.Name)
                ]
            elif isinstance(statement, ast.Assert):
                statement.test = self.expressions.condition(statement.test)
                made.append(statement)
            else:
                made.append(self.expressions.visit(statement))
        return made

    def _pair(self, names: Sequence[str], at: ast.AST) -> tuple[list[ast.stmt], ast.expr, ast.expr]:
        """Functions that get and set the variables."""
        self.shared.update(dict.fromkeys(names))
        get, put, given = self.name("get"), self.name("set"), self.name("given")
        values = ast.Tuple(elts=[_load(name) for name in names], ctx=ast.Load())
        targets = ast.Tuple(elts=[ast.Name(id=name, ctx=ast.Store()) for name in names], ctx=ast.Store())
        taken: list[ast.stmt] = [ast.Assign(targets=[targets], value=_load(given))] if names else []
        functions: list[ast.stmt] = [_function(get, [], [ast.Return(values)], []), _function(put, [given], taken, names)]
        return [_placed(f, at) for f in functions], _load(get), _load(put)

    def branch(self, node: ast.If, behind: set[str]) -> list[ast.stmt]:
        """An `if` that goes on behind itself."""
        names = _stores([*node.body, *node.orelse])
        live = [name for name in names if name in behind]
        pair, get, put = self._pair(names, node)
        then, orelse = self.name("then"), self.name("else")
        test = self.expressions.condition(node.test)
        functions = [
            _function(then, [], self.block(node.body, behind), names),
            _function(orelse, [], self.block(node.orelse, behind), names),
        ]
        call = _watch("branch", test, _load(then), _load(orelse), get, put, _names(names), _names(live))
        return [*pair, *(_placed(f, node) for f in functions), _placed(ast.Expr(call), node)]

    def choice(self, node: ast.If, rest: list[ast.stmt], after: set[str]) -> list[ast.stmt]:
        """An `if` that may return: what follows goes into the branches that do not."""
        bodies = []
        for body in (node.body, node.orelse):
            whole = [*body] if _always_leaves(body) else [*body, *_copies(rest)]
            bodies.append(whole)
        names = _stores([*bodies[0], *bodies[1]])
        pair, get, put = self._pair(names, node)
        then, orelse = self.name("then"), self.name("else")
        test = self.expressions.condition(node.test)
        functions = [_function(then, [], self.block(bodies[0], after), names), _function(orelse, [], self.block(bodies[1], after), names)]
        call = _watch("choice", test, _load(then), _load(orelse), get, put)
        return [*pair, *(_placed(f, node) for f in functions), _placed(ast.Return(call), node)]

    def loop(self, node: ast.While, behind: set[str]) -> list[ast.stmt]:
        """A `while`."""
        names = _stores([node.test, *node.body])
        again = behind | _loads([node.test]) | _loaded_first(node.body)
        carried = [name for name in names if name in again]
        pair, get, put = self._pair(names, node)
        condition, body = self.name("condition"), self.name("body")
        functions = [
            _function(condition, [], [ast.Return(self.expressions.condition(node.test))], []),
            _function(body, [], self.block(node.body, again), names),
        ]
        call = _watch("loop", _load(condition), _load(body), get, put, _names(names), _names(carried))
        return [*pair, *(_placed(f, node) for f in functions), _placed(ast.Expr(call), node)]

    def each(self, node: ast.For, behind: set[str]) -> list[ast.stmt]:
        """A `for`."""
        flag = getattr(node, "flag", "")
        item = self.name("item")
        taken = _placed(ast.Assign(targets=[node.target], value=_load(item)), node)
        body: list[ast.stmt] = [taken, *node.body]
        names = _stores(body)
        again = behind | _loaded_first(body) | ({flag} if flag else set())
        carried = [name for name in names if name in again]
        pair, get, put = self._pair(names, node)
        function = self.name("body")
        rows = self.expressions.visit(node.iter)
        call = _watch("each", rows, _load(function), get, put, _names(names), _names(carried), ast.Constant(flag))
        return [*pair, _placed(_function(function, [item], self.block(body, again), names), node), _placed(ast.Expr(call), node)]


def _copies(body: Sequence[ast.stmt]) -> list[ast.stmt]:
    def copied(node: Any) -> Any:
        if isinstance(node, ast.AST):
            made = type(node)(**{name: copied(value) for name, value in ast.iter_fields(node)})
            for extra in ("flag", "ours"):
                if hasattr(node, extra):
                    setattr(made, extra, getattr(node, extra))
            return ast.copy_location(made, node)
        return [copied(item) for item in node] if isinstance(node, list) else node

    return [copied(statement) for statement in body]
