"""`fluid.Inferencer`: predictions of a network that a function describes, with parameters from a folder."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from polyreme.fluid import io, unique_name
from polyreme.fluid.executor import Executor, Scope, scope_guard
from polyreme.fluid.framework import Program, program_guard, variables_of
from polyreme.names import listed
from polyreme.static.parallel.parallel_executor import ParallelExecutor
from polyreme.utils.shown import Shown

__all__ = ["Inferencer"]


class Inferencer(Shown):
    """Runs the network that `infer_func` builds; what that returns is predicted. Parameters come from the folder `param_path`, where
    `Trainer.save_params` or `fluid.io.save_params` has written them: by their names, which are those of the trained network when both are
    built by the same calls. `parallel` shares a batch out over all devices of the kind of `place`.
    """

    def __init__(self, infer_func: Callable[[], Any], param_path: str, place: Any = None, parallel: bool = False):
        if not Path(param_path).is_dir():
            raise FileNotFoundError(f"expected a folder of parameters as param_path but {param_path!r} is none")
        self.param_path = param_path
        self.parallel = parallel
        self.scope = Scope()
        program, startup = Program(), Program()
        with program_guard(program, startup), unique_name.guard():
            self.predict_var = variables_of(infer_func())
        self.inference_program = program.clone(for_test=True)
        self.exe = Executor(place)
        self.place = self.exe.place
        with scope_guard(self.scope):
            io.load_params(self.exe, param_path, program)
        self._replicas: ParallelExecutor | None = None
        if parallel:
            self._replicas = ParallelExecutor(self.place.is_gpu_place(), main_program=self.inference_program, scope=self.scope)

    def infer(self, inputs: Mapping[str, Any], return_numpy: bool = True) -> list[Any]:
        """The predictions for `inputs`, an array or LoDTensor by the name of each input: a list, of arrays, or with `return_numpy=False`
        of LoDTensors.
        """
        if not isinstance(inputs, Mapping):
            raise ValueError(f"inputs should be a map of {{'input_name': input_var}} but got {type(inputs).__name__}")
        names = [v.name for v in self.predict_var]
        if self._replicas is not None:
            return self._replicas.run(names, dict(inputs), return_numpy=return_numpy)
        return self.exe.run(self.inference_program, inputs, names, scope=self.scope, return_numpy=return_numpy)


__dir__ = listed(__name__)
