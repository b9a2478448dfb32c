"""Programs that are partly compiled: host calls (collectives, Python functions), and between them regions that become machine code.

The module that `split_regions` makes says what runs in which order: its `main` calls one function per region, and has the host's ops
between them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import takewhile

from polyreme.dialects import host, nn, tensor
from polyreme.dialects.control import local_sizes
from polyreme.ir.attributes import SymbolRef
from polyreme.ir.builtin import Call, Func, Module, Return
from polyreme.ir.control import copied_function, has_control_flow
from polyreme.ir.core import Op, Region, Value
from polyreme.ir.define import BindsSizes, ConstantLike, ControlFlow
from polyreme.ir.dims import symbols
from polyreme.ir.rewrite import erase_unused
from polyreme.ir.sizes.facts import Guard
from polyreme.ir.types import TensorType, type_symbols
from polyreme.lowering.analysis.names import distinct
from polyreme.lowering.gradients.autodiff import bound_symbols, op_symbols

__all__ = [
    "HOST_DIALECTS", "PART_OPS", "body_function", "has_host_ops", "is_host_op", "makes_size", "runs_in_parts", "sizes_learnt",
    "split_regions",
]  # fmt: skip

# Their ops are no part of compiled code.
HOST_DIALECTS = frozenset({"dist", "host"})
# What a library does itself between its parts.
PART_OPS = (host.First, host.Range, host.Size)


def is_host_op(op: Op, branches: bool = False) -> bool:
    """Whether the op runs on the host: by its own meaning, or, of a branch or loop, because of what is in it.

    Native code knows all sizes when it starts, so one with sizes that are known only when it has run is the host's, too. With `branches`
    all of them are: between launches on a GPU.
    """
    if op.dialect in HOST_DIALECTS:
        return True
    if not op.has(ControlFlow):
        return False
    if branches and not (isinstance(op, (nn.Scan, tensor.Scan)) and isinstance(op.steps, int) and not has_control_flow(op)):
        return True  # but not steps of a known number, which are written one after the other
    return bool(sizes_learnt(op)) or any(is_host_op(inner) for region in op.regions for block in region.blocks for inner in block)


def sizes_learnt(op: Op) -> tuple[str, ...]:
    """The sizes that are known only when a branch or loop has run."""
    if isinstance(op, (nn.If, tensor.If)):
        return tuple(map(str, op.sizes))
    if isinstance(op, (nn.While, tensor.While)):
        count = len(op.inits)
        return tuple(
            sorted(local_sizes([a.type for a in op.body.block.args[:count]], [v.type for v in op.inits], [v.type for v in op.captured]))
        )
    return ()


def has_host_ops(func: Func, branches: bool = False) -> bool:
    """Whether the function has to be split before it can be compiled; `branches` as in `is_host_op`."""
    return any(is_host_op(op, branches) for op in func.block)


def runs_in_parts(func: Func, branches: bool = False) -> bool:
    """Whether the function is compiled in parts, between which a library makes sizes of what it has computed, and branches and loops where
    it does so in one: it has ops for that, and none that only Python runs. `branches` as in `is_host_op`.
    """
    own = [op for op in func.block if is_host_op(op, branches)]
    return bool(own) and all(_runs_in_library(op, branches) for op in own)


def makes_size(op: Op) -> bool:
    """Whether the op makes a size of what is computed, and a library can do so itself."""
    return isinstance(op, (*PART_OPS, host.NonZero))


def _runs_in_library(op: Op, branches: bool) -> bool:
    if makes_size(op):
        return True
    inner = [op for region in op.regions for block in region.blocks for op in block]
    may = isinstance(op, (nn.If, nn.While, nn.Scan))
    return may and all(not is_host_op(op, branches) or _runs_in_library(op, branches) for op in inner)


def body_function(region: Region, known: Iterable[Value]) -> tuple[Func, list[Value]]:
    """The body of a branch or loop as a function of its own, whose arguments are the block's and then such values of `known` as tell sizes
    that no other argument tells; and these values.
    """
    func: Func = copied_function(region, "main")
    missing = frozenset().union(*(op_symbols(op) for op in func.walk() if op is not func)) - bound_symbols(func.args)
    missing -= frozenset().union(*(bound_symbols(op.results) for op in func.walk() if op.has(BindsSizes)))
    tellers = []
    for value in known:
        if bound_symbols([value]) & missing:
            tellers.append(value)
            missing -= bound_symbols([value])
            func.block.add_arg(value.type, value.name)
    func.finish()
    func.attributes |= {"arg_names": tuple(distinct(a.name or f"arg_{i}" for i, a in enumerate(func.args)))}
    return func, tellers


def split_regions(func: Func, branches: bool = False) -> Module:
    """A module whose `main` is `func`, every run of ops between the host's moved into a function `region_0`, `region_1`, … of its own.

    Constants are made where they are used; what one region makes and a later one needs is passed on. What nobody needs is left out. An
    argument of `func` keeps its name and role in the regions that take it. `func` stays as it is. `branches` as in `is_host_op`.
    """
    module = Module.empty(loc=func.location)
    main: Func = func.clone()
    main.attributes["sym_name"] = "main"
    module.block.append(main)
    erase_unused(main)
    for number, run in enumerate(_runs(main, branches)):
        _outline(module, main, run, f"region_{number}")
    erase_unused(main)
    return module


def _runs(main: Func, branches: bool) -> list[list[Op]]:
    """The ops to compile, as they stand between the host's. Constants alone are no reason for a region, unless the host takes or returns
    them.
    """
    runs: list[list[Op]] = [[]]
    for op in main.block:
        if is_host_op(op, branches) or isinstance(op, Return):
            runs.append([])
        elif not op.has(ConstantLike):
            runs[-1].append(op)
        elif kept := [use for use in op.result.uses if is_host_op(use.op, branches) or isinstance(use.op, Return)]:
            # One for the host alone, so that regions still have theirs.
            made = main.block.insert(op.clone(), op)
            for use in kept:
                use.op.set_operand(use.index, made.result)
            runs[-1].append(made)
    return [run for run in runs if run]


def _outline(module: Module, main: Func, run: Sequence[Op], name: str) -> None:
    """Replace the ops of `run` by a call of a new function of them."""
    inside = set(run)
    used = dict.fromkeys(v for op in run for inner in op.walk() for v in inner.operands if not _defined_in(v, inside))
    constants = [v for v in used if isinstance(v.owner, Op) and v.owner.has(ConstantLike)]
    inputs = [v for v in used if v not in constants]
    outputs = [r for op in run for r in op.results if any(_top(use.op, main) not in inside for use in r.uses)]
    inputs += _sources_of_sizes(main, run, constants, inputs)
    roles = dict(zip(main.args, main.arg_roles, strict=False))
    made = Func.empty(
        name,
        [v.type for v in inputs],
        (),
        distinct(v.name or f"arg_{i}" for i, v in enumerate(inputs)),
        loc=run[0].location,
        arg_roles=tuple(roles.get(v, "input") for v in inputs),
    )
    told = bound_symbols(inputs)
    made.attributes["guards"] = tuple(g for g in main.guards if symbols(Guard.parse(g).size) <= told)
    mapping: dict[Value, Value] = dict(zip(inputs, made.args, strict=True))
    for value in constants:
        made.block.append(value.owner.clone(mapping))  # type: ignore[union-attr]
    for op in run:
        made.block.append(op.clone(mapping))
    made.block.append(Return([mapping[v] for v in outputs]))
    module.block.append(made.finish())
    call = Call.build(inputs, {"callee": SymbolRef(name)}, (), [v.type for v in outputs], run[0].location, (len(inputs),))
    main.block.insert(call, run[0])
    for old, new in zip(outputs, call.results, strict=True):
        new.name = old.name
        old.replace_all_uses_with(new)
    for op in reversed(run):
        op.erase()


def _sources_of_sizes(main: Func, run: Sequence[Op], constants: Sequence[Value], inputs: Sequence[Value]) -> list[Value]:
    """Values that tell the sizes that `run` mentions and `inputs` do not tell: arguments first, then what is there when it starts."""
    made = [*(inner for op in run for inner in op.walk()), *(v.owner for v in constants)]
    mentioned = frozenset().union(*(op_symbols(op) for op in made), *(type_symbols(v.type) for v in inputs))  # type: ignore[arg-type]
    missing = mentioned - bound_symbols(inputs)
    found: list[Value] = []
    earlier = [r for op in takewhile(lambda op: op is not run[0], main.block) for r in op.results] if missing else []
    for value in (*main.args, *earlier):
        if isinstance(value.type, TensorType) and value not in inputs and bound_symbols([value]) & missing:
            found.append(value)
            missing -= bound_symbols([value])
    return found


def _defined_in(value: Value, ops: set[Op]) -> bool:
    """Whether a value is made by one of the ops, or in a region of one."""
    at = value.owner if isinstance(value.owner, Op) else value.owner.parent_op
    while at is not None:
        if at in ops:
            return True
        at = at.parent_op
    return False


def _top(op: Op, main: Func) -> Op:
    """The op of `main`'s own block that `op` is, or is in."""
    while op.parent is not main.block:
        parent = op.parent_op
        assert parent is not None
        op = parent
    return op
