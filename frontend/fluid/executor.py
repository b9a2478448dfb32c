"""`fluid.Executor` and scopes: those of `paddle.static`, with what older programs ask of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from polyreme.fluid.framework import Program, default_main_program
from polyreme.fluid.reader import feeds_of_readers
from polyreme.names import listed
from polyreme.static import executor
from polyreme.static.lod.tensor import LoDTensor
from polyreme.static.parallel.compiled_program import CompiledProgram
from polyreme.static.scope import Scope, _switch_scope, global_scope, scope_guard
from polyreme.static.variable import Variable

__all__ = ["Executor", "Scope", "_fetch_var", "_switch_scope", "as_numpy", "fetch_var", "global_scope", "scope_guard"]


def _program_of(program: Any) -> Program:
    if isinstance(program, CompiledProgram):
        return program.program
    return program if isinstance(program, Program) else default_main_program()


class OneElement(np.ndarray[Any, Any]):
    """An array of one element that is a number, too, as all such were in numpy of that time: `float(loss)`, `"%f" % loss`."""

    def __float__(self) -> float:
        return float(self.item())

    def __int__(self) -> int:
        return int(self.item())

    def __index__(self) -> int:
        return int(self.item().__index__())

    def __repr__(self) -> str:
        return repr(np.asarray(self))


class Executor(executor.Executor):
    """Runs programs on one device, as compiled code: `place`, by default main memory."""

    def run(  # type: ignore[override]
        self,
        program: Any = None,
        feed: Any = None,
        fetch_list: Any = None,
        feed_var_name: str = "feed",
        fetch_var_name: str = "fetch",
        scope: Any = None,
        return_numpy: bool = True,
        use_program_cache: bool = False,
        return_merged: bool = True,
        use_prune: bool = False,
    ) -> list[Any]:
        """Run all operators of `program`, by default the default main program, in their order; the values of `fetch_list`, variables or
        names, as arrays, or as LoDTensors with `return_numpy=False`.

        `feed` has an array or LoDTensor for each input, by name. Persistable variables live in `scope`, by default the global one; all
        others are gone when the run ends. A program is compiled once for the names that are fed and fetched, and again when it has changed,
        whatever `use_program_cache` says.
        """
        if isinstance(program, CompiledProgram):
            inside = global_scope() if scope is None else scope
            found = program.run_replicas(self, feed, list(fetch_list or []), inside, return_merged)
            if found is not None:
                return found
        feed = executor.one_feed(feed)
        readers = feeds_of_readers(_program_of(program))
        if readers:
            feed = {**readers, **(feed or {})}
        return super().run(
            program, feed, fetch_list, feed_var_name, fetch_var_name, scope, return_numpy, use_program_cache, use_prune
        )

    def _given(self, array: Any, lod: Any, return_numpy: bool) -> Any:
        made = super()._given(array, lod, return_numpy)
        if not return_numpy:
            return made if isinstance(made, LoDTensor) else LoDTensor(array)
        return made.view(OneElement) if made.ndim and made.size == 1 else made

    @staticmethod
    def as_lodtensor(data: Any, place: Any = None, dtype: Any = None) -> LoDTensor:
        """An array as a LoDTensor without levels."""
        if isinstance(data, list):
            raise RuntimeError(
                "Some of your feed data hold LoD information. They can not be completely cast from a list of Python ndarray to LoDTensor. "
                "Please convert data to LoDTensor directly before feeding the data."
            )
        return LoDTensor(np.asarray(data, dtype))


def as_numpy(tensor: Any) -> Any:
    """A LoDTensor without levels (or a list of them) as an array; a `RuntimeError` for one that has levels."""
    if isinstance(tensor, (list, tuple)):
        return [as_numpy(t) for t in tensor]
    if tensor.lod():
        raise RuntimeError(executor.LEVELS_LOST)
    return np.array(tensor)


def fetch_var(name: Any, scope: Scope | None = None, return_numpy: bool = True) -> Any:
    """The value of a variable, normally a persistable one, in a scope: an array, or a LoDTensor with `return_numpy=False`."""
    text = name.name if isinstance(name, Variable) else name
    if not isinstance(text, str):
        raise TypeError(f"expected a variable or its name but got {type(name).__name__}")
    found = (scope or global_scope()).find_var(text)
    if found is None:
        raise ValueError(
            f"Cannot find {text} in scope. Perhaps you need to make the variable persistable by using var.persistable = True in your "
            f"program."
        )
    tensor = found.get_tensor()
    return as_numpy(tensor) if return_numpy else tensor


_fetch_var = fetch_var

__dir__ = listed(__name__)
