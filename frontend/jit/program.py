"""A traced function as machine code: called with tensors, recorded on the tape as one step."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from functools import cached_property
from operator import is_
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from polyreme import tape
from polyreme.device import current_place, get_device, on_device
from polyreme.function_steps import FunctionNode, record_function
from polyreme.ir.diagnostics import PolyremeError
from polyreme.jit.spares import Spares, is_free
from polyreme.jit.structure import LEAF
from polyreme.jit.traced import Traced
from polyreme.jit.unread import SavedWeights
from polyreme.jit.weights import WeightedFunction
from polyreme.tensor import Tensor

if TYPE_CHECKING:
    from polyreme.ir.builtin import Func, Module
    from polyreme.jit.cuts import Cut
    from polyreme.lowering.gradients.autodiff import BackwardHalf

__all__ = ["FixedWeights", "PresentWeights", "TracedProgram", "WeightsInCode", "compile_function"]


def compile_function(func: Func, name: str, prepare: str = "") -> Any:
    """The executable of one `nn` function, which is left as it is.

    With `prepare` its weights are packed when they change, as `lowering.pipeline` has it; GPUs pack nothing, and neither do functions with
    ops for the host.
    """
    from polyreme.compiled.executables import load_module
    from polyreme.ir.builtin import Module
    from polyreme.lowering.schedule.regions import has_host_ops

    module = Module.empty(loc=func.location)
    copy = func.clone()
    copy.attributes["sym_name"] = "main"
    module.block.append(copy)
    if prepare and current_place().is_cpu_place() and not has_host_ops(func):
        return WeightedFunction(module, c_name(name), prepare)
    return load_module(module, c_name(name), resident=True)


def c_name(name: str) -> str:
    """`name` as native code can have it: a function's name may be `<lambda>`."""
    text = "".join(c if c.isascii() and c.isalnum() else "_" for c in name).strip("_")
    return text if text[:1].isalpha() else f"f_{text}"


class Training:
    """The gradients of a program on a device with respect to the arguments at `wrt`: code is made when it is first needed."""

    def __init__(self, func: Func, wrt: tuple[int, ...], name: str):
        from polyreme.lowering.gradients.autodiff import forward_half

        self.func, self.wrt, self.name, self.device = func, wrt, name, get_device()
        self.half = forward_half(func, wrt)
        # Weights change between most steps of training: only packs that every step would make are kept.
        self.forward = compile_function(self.half.function, f"{name}_forward", "worth")
        self._halves: dict[tuple[int, ...], BackwardHalf] = {}
        self._compiled: dict[Any, Any] = {}
        self._read: dict[Any, frozenset[int]] = {}
        self._programs: dict[tuple[int, ...], tuple[TracedProgram, tuple[int, ...]]] = {}

    def backward(self, given: tuple[int, ...]) -> BackwardHalf:
        """The backward half for gradients of the results at `given`."""
        from polyreme.lowering.gradients.autodiff import backward_half

        if given not in self._halves:
            self._halves[given] = backward_half(self.func, self.wrt, given, self.half)
        return self._halves[given]

    def read_themselves(self, given: tuple[int, ...], copies: tuple[int, ...]) -> frozenset[int]:
        """The arguments whose elements gradients of the results at `given` need, themselves or through a view, not as a copy that the
        function made.
        """
        from polyreme.lowering.gradients.autodiff import arguments_read_themselves

        if (given, copies) not in self._read:
            self._read[given, copies] = (
                arguments_read_themselves(self.func, self.wrt, given, copies) if copies else self.backward(given).read
            )
        return self._read[given, copies]

    def code(self, given: tuple[int, ...]) -> Any:
        """It compiled. Whoever only looks at results never needs it, and neither do ranks, whose backward has collectives."""
        if given not in self._compiled:
            with on_device(self.device):
                self._compiled[given] = compile_function(self.backward(given).function, f"{self.name}_backward")
        return self._compiled[given]

    def reduced(self, given: tuple[int, ...], order: tuple[int, ...], reducer: Any) -> Any:
        """It with the buckets of `reducer` in it; `order` says which results are the gradients of its parameters."""
        key = (given, order, reducer.buffer, reducer.last_buffer)
        if key not in self._compiled:
            with on_device(self.device):
                self._compiled[key] = compile_function(
                    with_collectives(self.backward(given).function, order, reducer), f"{self.name}_backward"
                )
        return self._compiled[key]

    def differentiable(self, given: tuple[int, ...]) -> tuple[TracedProgram, tuple[int, ...]]:
        """A program of all arguments and the gradients of the results at `given`, which gives those of the arguments that are named beside
        it, and has gradients itself.
        """
        from polyreme.lowering.gradients.autodiff import gradient_function

        if given not in self._programs:
            func, reached = gradient_function(self.func, self.wrt, given)
            types = [arg.type for arg in func.args]
            traced = Traced(func, types, list(range(len(types))), LEAF, len(reached))
            self._programs[given] = TracedProgram(traced, f"{self.name}_backward"), reached
        return self._programs[given]


class WeightsInCode(Protocol):
    """Code for a program that has its weights in it."""

    def holds(self) -> bool:
        """Whether the program still has these weights."""

    def contents(self) -> list[Any]:
        """The weights, as arrays."""

    def executable(self, name: str) -> Any:
        """The code, found or compiled; `name` is for messages."""


class PresentWeights:
    """Code for a program with the weights that it has now, for this machine's CPU."""

    def __init__(self, traced: Traced):
        self._traced = traced
        self._arrays = [tensor._value for tensor in traced.captured]

    def holds(self) -> bool:
        """Whether the program still has these weights: nobody writes to the array of a tensor."""
        return all(map(is_, self._arrays, [tensor._value for tensor in self._traced.captured]))

    def contents(self) -> list[Any]:
        """The weights, as arrays."""
        return list(self._arrays)

    def executable(self, name: str) -> Any:
        """The code, found or compiled; `name` is for messages."""
        from polyreme.compiled.executables import load_module

        return load_module(self._traced.frozen(self._arrays), name)


class FixedWeights:
    """Code for a program of a saved model that has the model's weights in it: for this machine's CPU, for as long as nobody changes them.
    """

    def __init__(self, identity: str, traced: Traced, weights: SavedWeights, ops: int, check_unchanged: Callable[[], None]):
        """`identity` tells the model's files from any others; so many `ops` are compiled. `check_unchanged` raises an error where the files
        have changed.
        """
        self._identity = identity
        self._traced = traced
        self._weights = weights
        self.ops = ops
        self.check_unchanged = check_unchanged

    def holds(self) -> bool:
        """Whether the weights are those of the file."""
        return self._weights.unchanged()

    @property
    def key(self) -> str:
        """Under which the code is kept."""
        from polyreme.compiled.kept import compiler_version, machine_text
        from polyreme.runtime.cache import digest_of

        return digest_of("fixed weights", self._identity, machine_text(None), compiler_version())

    def module(self) -> Module:
        """What is compiled: this reads the model, with weights that are still those of the file if it is unchanged afterwards."""
        from polyreme.lowering.link.workers import in_child_process

        self.check_unchanged()
        # A file that is cut off ends the process that looks at what it has mapped of it: that must be none but one that compiles.
        return self._traced.frozen(self._weights.mapped() if in_child_process() else self._weights.copied())

    def contents(self) -> list[Any]:
        """The weights of the file, as arrays."""
        return self._weights.arrays()

    def executable(self, name: str) -> Any:
        """The code, found or compiled; `name` is for messages."""
        from polyreme.compiled.kept import load_known

        try:
            return load_known(self.key, self.module, self.ops, c_name(name), self.check_unchanged)
        except PolyremeError:
            # A file that is cut off while it is read ends the process that compiles.
            self.check_unchanged()
            raise
        finally:
            # The weights that it is compiled of are in the code then.
            self._weights.release()


class TracedProgram:
    """One traced signature. Code is generated when it is first needed, and kept per device and set of arguments that need gradients.

    With `fixed`, results come from code that has the weights in it, until they are changed.
    """

    def __init__(self, traced: Traced, name: str, fixed: WeightsInCode | None = None):
        self.traced = traced
        self.name = name
        self.fixed = fixed
        # numbers of those that whoever runs it gives other contents afterwards, as the function does
        self.changed_inputs: frozenset[Any] = frozenset()
        self._fixed_run: Any = None
        self.captured = traced.captured
        self.flags = [tensor.stop_gradient for tensor in self.captured]
        self.types = [tensor.type for tensor in self.captured]
        self._inference: dict[str, Any] = {}
        self._training: dict[tuple[str, tuple[int, ...]], Training] = {}
        self._needing: dict[tuple[int, ...], tuple[bool, ...]] = {}
        self._dependents: dict[tuple[tuple[int, ...], int], frozenset[int]] = {}
        self._left: dict[tuple[tuple[int, ...], frozenset[int]], frozenset[int]] = {}
        self._spares = Spares()
        self._cuts: dict[int, Cut] = {}
        self._cut: Cut | None = None  # how it runs since gradients at one of its results were asked for

    def holds(self) -> bool:
        """Whether the captured tensors still are what they were when the function was traced, up to their contents."""
        captured = self.captured
        return self.flags == [t.stop_gradient for t in captured] and self.types == [t._type or t.type for t in captured]

    def __call__(
        self,
        inputs: Sequence[Tensor],
        trains: bool = True,
        changing: Tensor | None = None,
        before_writing: Callable[[list[Tensor]], None] | None = None,
    ) -> list[Tensor]:
        """The outputs; tensors that the function writes to get their new contents, unless `before_writing`, which is given the outputs,
        raises an error.

        Where gradients may be asked for, results come from the program that makes ready for them if it `trains`, or was asked for some
        before. `changing` may be changed before they are: its contents are kept.
        """
        args = [inputs[source] if isinstance(source, int) else source for source in self.traced.sources]
        tape.settle(*args)
        if self.fixed is not None and not self.fixed.holds():
            self.fixed = self._fixed_run = None
        fixed = self.fixed is not None and current_place().is_cpu_place()
        if tape.is_grad_enabled():
            wrt = tuple(i for i, t in enumerate(args) if not t.stop_gradient and t.type.dtype.kind in "fc")
            if wrt:
                if fixed and not trains and (get_device(), wrt) not in self._training:
                    return self._run_fixed_recorded(inputs, args, wrt)
                if any(self._needs(wrt)):
                    return self._run_recorded(args, wrt, changing, before_writing)
        if fixed:
            return self._run_fixed(inputs)
        arrays = self._executable("always").run([t._value for t in args])
        return self._written([Tensor._wrap(array) for array in arrays], before_writing)

    def _executable(self, prepare: str) -> Any:
        where = get_device()
        if where not in self._inference:
            self._inference[where] = compile_function(self.traced.func, self.name, prepare)
        return self._inference[where]

    def computed(self, inputs: Sequence[Tensor]) -> list[Tensor]:
        """The outputs of a step of training, and what `write` then gives the tensors that it writes to. Nothing is put on the tape."""
        args = [inputs[source] if isinstance(source, int) else source for source in self.traced.sources]
        tape.settle(*args)
        executable = self._step_executable()
        if isinstance(executable, WeightedFunction):
            results = self._update(executable, [t._value for t in args])
        else:
            results = executable.run([t._value for t in args])
        return [Tensor._wrap(array) for array in results]

    def _step_executable(self) -> Any:
        where = get_device()
        if where not in self._inference:
            self._inference[where] = compile_function(self._updating(), self.name, "worth")
        return self._inference[where]

    def _updating(self) -> Func:
        """The function, which says what its results take the place of where a processor runs it as a whole."""
        from polyreme.lowering.analysis.names import argument_names, result_names
        from polyreme.lowering.schedule.regions import has_host_ops

        func = self.traced.func
        if self.traced.proceeds is None or not current_place().is_cpu_place() or has_host_ops(func):
            return func
        returned = func.block.terminator.operands
        written = returned[self.traced.output_count :]
        if not all(value.type.is_static for value in written):
            return func
        func = func.clone()
        names = argument_names(func)
        outputs = result_names(func, names)
        func.attributes |= {
            "arg_names": tuple(names),
            "result_names": tuple(outputs),
            "updates": tuple(f"{names[i]} -> {outputs[place]}" for place, i in self._replaced),
            "proceeds": outputs[self.traced.proceeds],
        }
        return func

    def _update(self, executable: WeightedFunction, arrays: list[Any]) -> list[Any]:
        """The results of a step. What it updates is written where it stands, if nobody else has that, or else to memory that a step before
        left.

        An interrupt is raised when the native code has run: the step is taken as a whole then.
        """
        if not executable.updates:
            results = executable.run(arrays, self._spares.take)
            for place, i in self._replaced:
                self._spares.keep(place, arrays[i])
            return results
        proceeds = self.traced.proceeds
        assert proceeds is not None
        taken = np.zeros((), np.bool_)
        memory: dict[int, Any] = {}

        def places() -> dict[int, Any]:
            spare = self._spares.take()
            for place, i in self._replaced:
                array = arrays[i]
                if place in executable.updates and is_free(array):
                    memory[place] = array
                else:
                    memory[place] = spare[place] if place in spare else np.empty_like(array)
            for place in self._made:
                kind = self.traced.func.block.terminator.operands[place].type
                memory[place] = np.empty(kind.shape, kind.dtype.np)
            return memory | {proceeds: taken}

        try:
            results = executable.run(arrays, places)
        except BaseException:
            if taken:
                for place, tensor in enumerate(self.traced.written, self.traced.output_count):
                    tensor._put(memory[place])
            raise
        for place, i in self._replaced:
            if memory[place] is not arrays[i]:
                self._spares.keep(place, arrays[i])
        return results

    @cached_property
    def _made(self) -> list[int]:
        """The numbers of results that tensors are given whose contents before are no argument."""
        replaced = {place for place, _ in self._replaced}
        return [place for place, _ in enumerate(self.traced.written, self.traced.output_count) if place not in replaced]

    @cached_property
    def _replaced(self) -> list[tuple[int, int]]:
        """The numbers of results that tensors are given, and of the arguments which their contents before are."""
        places = {id(source): i for i, source in enumerate(self.traced.sources) if not isinstance(source, int)}
        written = enumerate(self.traced.written, self.traced.output_count)
        return [(place, places[id(tensor)]) for place, tensor in written if id(tensor) in places]

    def _run_fixed(self, inputs: Sequence[Tensor]) -> list[Tensor]:
        if self._fixed_run is None:
            assert self.fixed is not None
            self._fixed_run = self.fixed.executable(self.name).run
        return [Tensor._wrap(array) for array in self._fixed_run([t._value for t in inputs])]

    def _run_fixed_recorded(self, inputs: Sequence[Tensor], args: Sequence[Tensor], wrt: tuple[int, ...]) -> list[Tensor]:
        """As `_run_recorded`, but what gradients need is computed once they are asked for."""
        fixed, where = self.fixed, get_device()
        assert fixed is not None
        results = self._run_fixed(inputs)
        given = [tensor._value for tensor in inputs]
        versions = self._versions(args)

        def step(ready: bool) -> ProgramStep:
            weights = iter(fixed.contents())
            contents = [given[source] if isinstance(source, int) else next(weights) for source in self.traced.sources]
            with on_device(where):
                training = self._training_of(wrt)
                made = ProgramStep(self, training, args, contents, versions, training.forward.run(contents)[count:] if ready else ())
            made.edges = edges
            return made

        def gradients(*grads: Tensor | None) -> list[Tensor | None]:
            return step(True).gradients(*[g if needed else None for g, needed in zip(grads, self._needs(wrt), strict=True)])

        count = len(results)
        node = record_function(args, results, gradients, self.name)
        edges = [tape.edge_of(t) for t in args]
        if node is not None and count > 1:
            node.run = _LaterRun(self, wrt, step)
        return results

    def _written(self, results: list[Tensor], before_writing: Callable[[list[Tensor]], None] | None) -> list[Tensor]:
        """The outputs, when the tensors that the function writes to have their new contents."""
        outputs = results[: self.traced.output_count]
        if before_writing is not None:
            before_writing(outputs)
        self.write(results)
        return outputs

    def write(self, results: Sequence[Tensor]) -> None:
        """Give the tensors that the function writes to their new contents, which stand behind its outputs, and the places of these on the
        tape.
        """
        for tensor, value in zip(self.traced.written, results[self.traced.output_count :], strict=True):
            if value._node is None:
                tensor._put(value._value)
            else:
                from polyreme import dispatch  # a loaded model that writes nothing needs none of it

                with dispatch.trace_into(None):
                    dispatch.assign(tensor, value)

    def _run_recorded(
        self,
        args: Sequence[Tensor],
        wrt: tuple[int, ...],
        changing: Tensor | None,
        before_writing: Callable[[list[Tensor]], None] | None,
    ) -> list[Tensor]:
        if self._cut is not None:
            return self._written(self._cut.run(args, changing), before_writing)
        training = self._training_of(wrt)
        given = [t._value for t in args]
        versions = self._versions(args, changing)
        count = self.traced.output_count + len(self.traced.written)
        arrays = training.forward.run(given)
        results = [Tensor._wrap(array) for array in arrays[:count]]
        step = ProgramStep(self, training, args, given, versions, arrays[count:])
        node = record_function(args, results, step.gradients, self.name, self._needs(wrt))
        assert node is not None
        step.edges = node.edges
        if count > 1:
            node.run = step
        return self._written(results, before_writing)

    def dependents(self, wrt: tuple[int, ...], index: int) -> frozenset[int]:
        """The other results through which gradients come to the one at `index`, where the arguments at `wrt` need some."""
        if (wrt, index) not in self._dependents:
            from polyreme.jit.cuts import dependents

            needs = self._needs(wrt)
            self._dependents[wrt, index] = (
                frozenset(i for i in dependents(self.traced.func, index) if needs[i]) if needs[index] else frozenset()
            )
        return self._dependents[wrt, index]

    def left(self, wrt: tuple[int, ...], spent: frozenset[int]) -> frozenset[int]:
        """The results whose gradients, where the arguments at `wrt` need some, pass nothing that those at `spent` pass."""
        if len(self._needs(wrt)) == len(spent):
            return frozenset()
        if (wrt, spent) not in self._left:
            from polyreme.jit.cuts import apart_from

            self._left[wrt, spent] = apart_from(self.traced.func, wrt, spent)
        return self._left[wrt, spent]

    def cut(self, index: int) -> Cut:
        """It as two programs, the first of which gives the result at `index`."""
        if index not in self._cuts:
            from polyreme.jit.cuts import Cut

            self._cuts[index] = Cut(self, index)
        return self._cuts[index]

    def run_cut(self, index: int, args: Sequence[Tensor]) -> list[Tensor]:
        """All its results, by two programs. So it runs from then on."""
        cut = self.cut(index)
        results = cut.run(args)
        self._cut = self._cut or cut
        return results

    def watch(self, results: Sequence[Tensor], index: int, tensor: Tensor) -> tuple[ProgramStep, int] | None:
        """Let gradients of these results of a run, but for those that do not need the one at `index`, be an error if `tensor`, which has
        that, is changed.

        The step that has to know if it is changed and gone when they are asked for, with the number of the result there; None where none
        does.
        """
        # Of a run by two programs each step knows its own results.
        places = [(results[index], results[index]._index)] if self._cut is not None else [(t, index) for t in results]
        for made, place in places:
            if isinstance(made._node, FunctionNode) and isinstance(made._node.run, ProgramStep):
                made._node.run.watched.append((place, weakref.ref(tensor), tensor._version))
                return made._node.run, place
        return None

    def changed_args(self) -> frozenset[Any]:
        """Numbers of the arguments that are changed when it has run."""
        written, changed = self.traced.written, self.changed_inputs
        return frozenset(i for i, source in enumerate(self.traced.sources) if source in changed or any(source is w for w in written))

    def _versions(self, args: Sequence[Tensor], changing: Tensor | None = None) -> list[int | None]:
        """What is the matter when an argument is changed: not of those that the function itself writes to, nor of `changing`; their
        contents from before are kept.
        """
        written, changed = self.traced.written, self.changed_inputs
        if not written and not changed:
            return [t._version for t in args] if changing is None else [None if t is changing else t._version for t in args]
        return [
            None if source in changed or t is changing or any(t is w for w in written) else t._version
            for source, t in zip(self.traced.sources, args, strict=True)
        ]

    def _needs(self, wrt: tuple[int, ...]) -> tuple[bool, ...]:
        """Of each result, and of what is written, whether it needs gradients where the arguments at `wrt` do."""
        if wrt not in self._needing:
            from polyreme.lowering.gradients.autodiff import needs_gradients

            self._needing[wrt] = needs_gradients(self.traced.func, wrt)
        return self._needing[wrt]

    def _training_of(self, wrt: tuple[int, ...]) -> Training:
        key = get_device(), wrt
        if key not in self._training:
            self._training[key] = Training(self.traced.func, wrt, self.name)
        return self._training[key]


class _LaterRun:
    """What is known of a run of a program with fixed weights, by the step that is made once gradients are asked for; `ProgramRun` has
    what it is asked.
    """

    def __init__(self, program: TracedProgram, wrt: tuple[int, ...], step: Callable[[bool], ProgramStep]):
        self.program, self.wrt, self.step = program, wrt, step

    def dependents(self, index: int) -> frozenset[int]:
        return self.program.dependents(self.wrt, index)

    def left(self, spent: frozenset[int]) -> frozenset[int]:
        return self.program.left(self.wrt, spent)

    def apart(self, index: int) -> list[Tensor]:
        return self.step(False).apart(index)


class ProgramStep:
    """A run of a program's forward half, and what its gradients need of it."""


    def __init__(
        self,
        program: TracedProgram,
        training: Training,
        args: Sequence[Tensor],
        given: Sequence[Any],
        versions: Sequence[int | None],
        residuals: Sequence[Any],
    ):
        """It took the arrays `given` of `args`, which had these versions then (None: of any)."""
        self.program = program
        self.training, self.args, self.given, self.versions, self.residuals = training, args, given, versions, residuals
        # Where their gradients go: an argument may be written to, and be made by another step then.
        self.edges: Sequence[Any] = ()
        self.watched: list[tuple[int, weakref.ref[Tensor], int]] = []  # results that the user may change, with their versions
        self.changed: dict[int, int] = {}  # versions of those that are known to be changed

    def dependents(self, index: int) -> frozenset[int]:
        """As `ProgramRun` has it."""
        return self.program.dependents(self.training.wrt, index)

    def left(self, spent: frozenset[int]) -> frozenset[int]:
        """As `ProgramRun` has it."""
        return self.program.left(self.training.wrt, spent)

    def apart(self, index: int) -> list[Tensor]:
        """As `ProgramRun` has it."""
        from polyreme import dispatch

        kept = [(t, t._value, t._node, t._index, t._version, t.stop_gradient) for t in self.args]
        try:
            # The arguments are what they were, leaves themselves, for gradients to arrive at them.
            for tensor, array, edge, version in zip(self.args, self.given, self.edges, self.versions, strict=True):
                tensor._value, tensor.stop_gradient = array, edge is None
                tensor._node, tensor._index = edge if isinstance(edge, tuple) else (None, 0)
                tensor._version = tensor._version if version is None else version
            with on_device(self.training.device), dispatch.trace_into(None), tape.recording(True):
                return self.program.run_cut(index, self.args)
        finally:
            for tensor, array, node, place, version, stopped in kept:
                tensor._value, tensor._node, tensor._index, tensor._version, tensor.stop_gradient = array, node, place, version, stopped

    def gradients(self, *grads: Tensor | None) -> list[Tensor | None]:
        """The gradients of the arguments, None for those that no gradient reaches; `grads` are those of all results, None where there is
        none.
        """
        training = self.training
        given = tuple([i for i, grad in enumerate(grads) if grad is not None])
        found: list[Tensor | None] = [None] * len(self.args)
        half = training.backward(given)
        args, versions = self.args, self.versions
        for i in half.read:
            version = versions[i]
            if version is not None and args[i]._version != version and i in training.read_themselves(given, self.program.traced.copies):
                raise RuntimeError(
                    tape.changed_in_place(f"argument '{training.func.arg_names[i]}' of '{training.name}'", args[i]._version, version)
                )
        for i, reference, version in self.watched:
            now = self.changed.get(i, version) if (tensor := reference()) is None else tensor._version
            if now != version and self.program.cut(i).reads(training.wrt, given):
                raise RuntimeError(tape.changed_in_place(f"a result of '{training.name}'", now, version))
        seeds = [grad for grad in grads if grad is not None]
        if tape.is_grad_enabled():
            program, reached = training.differentiable(given)
            with on_device(training.device):
                made = program([*map(self._argument, range(len(self.args))), *seeds])
        else:
            reached = half.reached
            arrays = [*[self.given[i] for i in half.saved], *[self.residuals[i] for i in half.residuals], *[dy._value for dy in seeds]]
            made = [Tensor._wrap(array) for array in self._run(given, reached, arrays)]
        for i, grad in zip(reached, made, strict=True):
            found[i] = grad
        return found

    def _run(self, given: tuple[int, ...], reached: tuple[int, ...], arrays: list[Any]) -> Sequence[Any]:
        leaves = [self.args[i] for i in reached]
        reducer = next((w for w in map(tape.watcher_of, leaves) if w is not None), None)
        order = reducer.covered_by(leaves) if reducer is not None else None
        if reducer is None or order is None:
            return self.training.code(given).run(arrays)
        return reducer.run_reduced(self.training.reduced(given, order, reducer), arrays)

    def _argument(self, i: int) -> Tensor:
        """An argument as it was."""
        tensor, edge = self.args[i], self.edges[i]
        if tensor._value is self.given[i] and tape.same_edge(tape.edge_of(tensor), edge):
            return tensor
        same = Tensor._wrap(self.given[i])
        if isinstance(edge, tuple):
            same.stop_gradient, (same._node, same._index) = False, edge
        return same


def with_collectives(backward: Func, order: tuple[int, ...], reducer: Any) -> Func:
    """A copy of a backward function that averages its results `order`, the gradients of the reducer's parameters, over all ranks while it
    computes the rest.
    """
    from polyreme.ir.builtin import Module
    from polyreme.ir.passes import PassManager
    from polyreme.lowering.transforms.bucket import BucketGradients, OverlapCollectives

    module = Module.empty(loc=backward.location)
    module.block.append(copy := backward.clone())
    gradients = copy.block.terminator.operands
    for i, name in zip(order, reducer.names, strict=True):
        gradients[i].name = gradients[i].name or f"grad_{name}"
    PassManager([BucketGradients(reducer.buffer, reducer.last_buffer, order), OverlapCollectives()]).run(module)
    copy.detach()
    return copy
