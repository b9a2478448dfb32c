"""Host operators of a program, also those in blocks of branches and loops, as `host.call` ops; and variables that Go blocks share.

What a name stands for is one value at one place, but a variable that a Go block writes may change at any moment. So such variables live in
the session, each read of one is a call that loads it, and each write is followed by a call that stores it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from polyreme.dialects import host
from polyreme.ir.diagnostics import UNKNOWN, Diagnostic
from polyreme.ir.dims import Expr
from polyreme.ir.python.records import dataclass
from polyreme.static.concurrency.channels import current_session
from polyreme.static.kinds import Host, Slots
from polyreme.static.nested.uses import block_of, names_from_outside
from polyreme.static.operator import Operator, RunError
from polyreme.static.variable import Variable
from polyreme.tensor import Tensor

if TYPE_CHECKING:
    from polyreme.static.program import Program

__all__ = ["GO", "HostCalls", "HostFunction", "has_channels", "shared_names"]

Array = np.ndarray[Any, Any]
GO = "go"
CHANNEL_OPERATORS = frozenset({GO, "channel_create", "channel_send", "channel_recv", "channel_close", "select"})


def has_channels(program: Program) -> bool:
    """Whether a run of the program needs a session."""
    return any(op.type in CHANNEL_OPERATORS for block in program.blocks for op in block.ops)


def shared_names(program: Program) -> frozenset[str]:
    """The variables that a Go block uses while somebody writes them: one of the Go blocks, or an operator that comes after the first."""
    blocks = [block_of(op) for block in program.blocks for op in block.ops if op.type == GO]
    if not blocks:
        return frozenset()
    used: set[str] = set()
    written: set[str] = set()
    for block in blocks:
        reads, writes = names_from_outside(block)
        used.update(reads, writes)
        written.update(writes)
    started = False
    for op in program.global_block().ops:
        started = started or starts_thread(op)
        if started and op.type != GO:
            written.update(op.written_names())
    return frozenset(used & written)


def starts_thread(op: Operator) -> bool:
    """Whether an operator is, or has in its block, a Go block."""
    return op.type == GO or (op.has_attr("sub_block") and any(map(starts_thread, block_of(op).ops)))


@dataclass(frozen=True)
class HostFunction:
    """What a `host.call` calls: an operator that runs in Python, with the variables that it writes. `given` says which of those that it
    reads have a value.
    """

    op: Operator
    kind: Host
    variables: list[Variable]
    given: dict[str, list[bool]]

    def __call__(self, arrays: list[Array]) -> list[Array]:
        values = iter(arrays)
        inputs: Any = {slot: [next(values) if there else None for there in given] for slot, given in self.given.items()}
        made = self.kind.run(self.op, inputs)
        found = [np.asarray(a) for slot, names in self.op.outputs.items() for _, a in zip(names, made[slot], strict=True)]
        for variable, array in zip(self.variables, found, strict=True):
            self._check(variable, array)
        return found

    def _check(self, variable: Variable, array: Array) -> None:
        expected = variable.type
        fits = len(expected.shape) == array.ndim and all(
            isinstance(d, Expr) or d == n for d, n in zip(expected.shape, array.shape, strict=True)
        )
        if array.dtype != expected.dtype.np or not fits:
            wanted, got = f"{variable.dtype.name}{list(variable.shape)} for '{variable.name}'", f"{array.dtype}{list(array.shape)}"
            raise RunError(Diagnostic(f"expected '{self.op.type}' to give {wanted} but got {got}", variable.location), code="E0609")


class HostCalls:
    """The calls of one function, and what they call."""

    def __init__(self, shared: Collection[str], go: Callable[[Operator, Sequence[str], Sequence[Tensor]], Any]):
        self.functions: dict[int, Callable[[list[Array]], Sequence[Array]]] = {}
        self.shared = shared
        self.make_go = go
        self.started = False  # whether a Go block may run already
        self.plans: list[Any] = []  # of Go blocks

    def _call(
        self, recorder: Any, what: str, function: Any, tensors: Sequence[Tensor], variables: Sequence[Variable], at: Any
    ) -> list[Tensor]:
        values = [recorder.value_of(t) for t in tensors]
        number = len(self.functions)
        self.functions[number] = function
        call = host.Call.build(values, {"id": number, "function": what}, (), [v.type for v in variables], at, (len(values),))
        return [Tensor._wrap(r, r.type) for r in recorder.builder.insert_op(call).results]

    @staticmethod
    def is_channel(op: Operator) -> bool:
        """Whether an operator has to do with channels."""
        return op.type in CHANNEL_OPERATORS

    def run(self, recorder: Any, op: Operator, inputs: Slots) -> Slots:
        """The outputs of a host operator."""
        if op.type == GO:
            return self._go(recorder, op, inputs)
        kind = op.kind
        assert isinstance(kind, Host)
        variables = [op.block.var_recursive(name) for names in op.outputs.values() for name in names]
        given = {slot: [t is not None for t in tensors] for slot, tensors in inputs.items()}
        tensors = [t for group in inputs.values() for t in group if t is not None]
        made = iter(self._call(recorder, kind.callee(op), HostFunction(op, kind, variables, given), tensors, variables, op.location))
        return {slot: list(islice(made, len(names))) for slot, names in op.outputs.items()}

    def check(self, recorder: Any, what: str, function: Callable[[list[Array]], list[Array]], tensors: Sequence[Tensor], at: Any) -> None:
        """Call a function that gives nothing, and raises where the tensors are not as they must be."""
        self._call(recorder, what, function, tensors, (), at)

    def _go(self, recorder: Any, op: Operator, inputs: Slots) -> Slots:
        self.started = True
        known = {name: t for slot, names in op.read_slots().items() for name, t in zip(names, inputs.get(slot, ()), strict=True)}
        names = [name for name, tensor in known.items() if tensor is not None and name not in self.shared]
        tensors = [known[name] for name in names]
        plan = self.make_go(op, names, tensors)
        self.plans.append(plan)

        def start(arrays: list[Array]) -> list[Array]:
            feed = {name: array.copy() for name, array in zip(names, arrays, strict=True)}
            current_session().go(lambda: plan.run_in_session(feed), f"go at {op.location}")
            return []

        self._call(recorder, GO, start, tensors, (), op.location)
        return {}

    # --- shared variables

    def loads(self, name: str) -> bool:
        """Whether a read of a variable has to look what it holds at that moment."""
        return self.started and name in self.shared

    def load(self, recorder: Any, variable: Variable) -> Tensor:
        """What a shared variable holds."""

        def read(_: list[Array]) -> list[Array]:
            run = current_session()
            run.check_going_on()
            with run.lock:
                found = run.shared.get(variable.name)
                kept = run.scope.find_var(variable.name) if found is None and variable.persistable else None
            if kept is not None:
                found = kept.array
            if found is None:
                message = f"expected a value of '{variable.name}' but no operator has written one yet"
                raise RunError(message, variable.location, code="E0604")
            return [found]

        return self._call(recorder, f"load {variable.name}", read, (), (variable,), UNKNOWN)[0]

    def store(self, recorder: Any, variable: Variable, tensor: Tensor) -> None:
        """Let a shared variable hold a value."""

        def write(arrays: list[Array]) -> list[Array]:
            run = current_session()
            run.check_going_on()
            with run.lock:
                run.shared[variable.name] = arrays[0].copy()
            return []

        self._call(recorder, f"store {variable.name}", write, (tensor,), (), UNKNOWN)

    def join(self, recorder: Any) -> None:
        """The end of the program, for which Go blocks are waited."""

        def wait(_: list[Array]) -> list[Array]:
            current_session().join()
            return []

        self._call(recorder, "join", wait, (), (), UNKNOWN)
