"""From operators to a program: what both file formats share once they are read.

The operators are applied, one after the other, to stand-ins, and a recorder keeps the `nn` ops that they become, just as tracing does. So a
loaded model is a traced function like any other: it compiles, trains, saves and joins other traces.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from polyreme import dispatch
from polyreme.ir.core import OpResult, Value
from polyreme.ir.diagnostics import Location, PolyremeError
from polyreme.ir.dims import UnknownSize
from polyreme.ir.types import TensorType
from polyreme.jit.capture.trace import Trace, Traced
from polyreme.jit.structure import flatten
from polyreme.loaders.errors import LoaderError, LoaderFault, LoaderMemoryError, is_refusal
from polyreme.loaders.program_desc import MAX_RANK
from polyreme.math.contents import is_small
from polyreme.parameter import Parameter
from polyreme.static import InputSpec
from polyreme.static.input_spec import input_types
from polyreme.tensor import Tensor

__all__ = ["ProgramBuilder", "check_type"]



class _Recorder(Trace):
    """A trace whose ops stand where the file says: at an operator, inside a Layer."""

    place = Location()

    def outside_of(self, arg: Value) -> Any:
        """Whole numbers among the parameters are what the file has, such as axes and sizes in buffers."""
        if arg not in self.block.args:
            return super().outside_of(arg)
        source = self.sources[self.block.args.index(arg)]
        return source if isinstance(source, Tensor) and source.type.dtype.is_integer else None

    def follow_variables(self) -> None:
        """Values are called what the file calls them."""

    def location(self) -> Location:
        return self.place


class ProgramBuilder:
    """The program of one file. Inputs are added first, then parameters as they are met, operators inside `operator`, the outputs at the
    end. It is used in a `with`: tensors that are not the program's own have what they had at its end.
    """

    def __init__(self, file: str, name: str):
        self.file = file
        self.name = name
        self.recorder = _Recorder({})

    def __enter__(self) -> ProgramBuilder:
        return self

    def __exit__(self, *error: object) -> None:
        # Operators that draw move the generator on, which nothing has drawn from yet.
        self.recorder.restore()

    def fail(self, where: str, message: str, code: str = "") -> LoaderError:
        return LoaderError(f"{self.file}: {where}: {message}" if where else f"{self.file}: {message}", code=code)

    def add_inputs(self, inputs: Sequence[tuple[str, str, Sequence[int]]], specs: Sequence[InputSpec] = ()) -> list[Tensor]:
        """Stand-ins for (name, dtype, sizes, -1 where free). `specs` say more: they replace the file's shapes, by name or in order."""
        chosen = [
            InputSpec([None if d == -1 else d for d in shape], dtype, name) for name, dtype, shape in inputs
        ]
        if specs:
            chosen = self._refined(chosen, specs)
        names = [str(spec.name) for spec in chosen]
        return [self.recorder.add_input(type, name, True) for type, name in zip(input_types(chosen, names), names, strict=True)]

    def _refined(self, own: list[InputSpec], specs: Sequence[InputSpec]) -> list[InputSpec]:
        by_name = {spec.name: i for i, spec in enumerate(own)}
        result = list(own)
        for position, spec in enumerate(specs):
            at = by_name.get(spec.name) if spec.name else position
            if at is None or at >= len(own):
                raise self.fail("", f"expected inputs called {', '.join(str(s.name) for s in own)} but got {spec}")
            declared = own[at]
            fits = len(spec.shape) == len(declared.shape) and spec.dtype is declared.dtype
            if not fits or any(isinstance(d, int) and d != n for d, n in zip(declared.shape, spec.shape, strict=True)):
                raise self.fail("", f"expected the input {declared} but got {spec}")
            result[at] = InputSpec(spec.shape, spec.dtype, declared.name)
        return result

    def parameter(self, name: str, array: np.ndarray[Any, Any], trainable: bool) -> Tensor:
        """A parameter, which becomes an argument of the program when it is first used."""
        tensor: Tensor
        if trainable and array.dtype.kind in "fV":
            tensor = Parameter(Tensor._wrap(array), trainable=True)
        else:
            tensor = Tensor._wrap(array)
            tensor.persistable = True
        tensor.name = name
        return tensor

    def named(self, tensor: Tensor, name: str) -> Tensor:
        """The tensor, whose value is called what the file calls it, unless it has a name."""
        value = tensor._value
        if isinstance(value, OpResult):
            value.name = value.name or name
        return tensor

    @contextmanager
    def operator(self, where: str, name: str, path: str = "") -> Iterator[None]:
        """Inside, ops are recorded at the operator `name` of the Layer at `path`; what goes wrong is reported `where`, as an error of the
        file where something refuses it, and else as one of the memory or of ours.
        """
        around = self.recorder.place
        self.recorder.place = Location(name=f"{path.rstrip('/')}/{name}" if path.strip("/") else name)
        try:
            with dispatch.trace_into(self.recorder):
                yield
        except LoaderError:
            raise
        except UnknownSize as error:
            inputs = self.recorder.arg_names
            axes = " and ".join(f"axis {axis} of the input '{inputs[number]}'" for number, axis in self.recorder.sizes.axes_of(error.sizes))
            way_out = f"; with numbers for {axes} it can be compiled: `polyreme compile {self.file} --input ...`" if axes else ""
            raise self.fail(where, f"{error}{way_out}") from error
        except PolyremeError as error:
            raise self.fail(where, error.message, error.diagnostics[0].code) from error
        except MemoryError as error:
            said = f": {error}" if str(error) else ""
            raise LoaderMemoryError(f"{self.file}: {where}: there is not enough memory to read it{said}") from error
        except (
            AssertionError,
            RuntimeError,
            TypeError,
            ValueError,
            IndexError,
            KeyError,
            AttributeError,
            OverflowError,
            ArithmeticError,
            NotImplementedError,
        ) as error:
            if is_refusal(error):
                code = "E0702" if isinstance(error, NotImplementedError) else ""
                raise self.fail(where, f"{error or type(error).__name__}", code) from error
            raise LoaderFault(
                f"{self.file}: {where}: '{name}' could not be read: {type(error).__name__}: {error}; if Paddle reads the file, this is "
                "a fault of polyreme's: please report it with the operator"
            ) from error
        finally:
            self.recorder.place = around

    def finish(self, outputs: Sequence[tuple[str, Tensor]]) -> Traced:
        """The program with these results."""
        if not outputs:
            raise self.fail("", "expected a program with results but it fetches nothing")
        tensors = [tensor for _, tensor in outputs]
        leaves: list[Any] = []
        template = flatten(tensors[0] if len(tensors) == 1 else tensors, leaves, lambda v: isinstance(v, Tensor))
        self.recorder.place = Location(name=self.name)
        with dispatch.trace_into(self.recorder):
            return self.recorder.finish(self.name, leaves, template, [name for name, _ in outputs], Location(self.file))


def check_type(made: TensorType, declared: TensorType | None, fail: Callable[[str], LoaderError]) -> None:
    """What an operator was found to make must be what the file says it makes; a declared -1 says nothing.

    Its sizes must be like those of genuine models, too: sizes could grow with every operator, to more than there is memory for.
    """
    if made.rank > MAX_RANK or not all(map(is_small, (*made.shape, *([made.elements] if all(map(is_small, made.shape)) else [])))):
        raise fail(f"expected at most {MAX_RANK} axes with sizes that memory can hold but got {made.rank} of {str(made)[:200]}")
    if declared is None:
        return
    same = made.dtype == declared.dtype and made.rank == declared.rank
    if same:
        same = all(
            not isinstance(a, int) or not isinstance(b, int) or b < 0 or a == b for a, b in zip(made.shape, declared.shape, strict=True)
        )
    if not same:
        raise fail(f"expected a result of type {declared}, which the file declares, but got {made}")
