"""Compiling what runs in `fluid.dygraph`: functions by `declarative`, Layers by `TracedLayer.trace`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from polyreme.fluid.executor import Executor, Scope, scope_guard
from polyreme.fluid.files.inference_model import save_inference_model
from polyreme.fluid.framework import Program, dygraph_mode, in_dygraph_mode, program_guard
from polyreme.fluid.input import data
from polyreme.jit import StaticFunction, enable_to_static, to_static
from polyreme.names import listed
from polyreme.nn import Layer
from polyreme.tensor import Tensor
from polyreme.utils.shown import Shown

__all__ = ["ProgramTranslator", "TracedLayer", "declarative"]


def declarative(func: Any) -> Any:
    """A function, or the `forward` of a Layer, compiled when it is first called: `paddle.jit.to_static`."""
    return to_static(func)


class ProgramTranslator(Shown):
    """What compiles functions with branches and loops on tensors; there is one of it. Results are those of `declarative`."""

    _only: ProgramTranslator | None = None

    def __new__(cls, *args: Any, **kwargs: Any) -> ProgramTranslator:
        if cls._only is None:
            cls._only = super().__new__(cls)
        return cls._only

    @classmethod
    def get_instance(cls) -> ProgramTranslator:
        """The one there is."""
        return cls()

    def enable(self, enable_declarative: bool) -> None:
        """Whether functions under `declarative` are compiled, or run as the Python that they are written in."""
        enable_to_static(enable_declarative)

    def get_output(self, dygraph_func: Any, *args: Any, **kwargs: Any) -> Any:
        """What the function gives, compiled."""
        return self.get_func(dygraph_func)(*args, **kwargs)

    def get_func(self, dygraph_func: Any) -> Any:
        """The function compiled."""
        if not callable(dygraph_func):
            raise AssertionError("Input dygraph_func is not a callable in ProgramTranslator.get_func")
        return dygraph_func if isinstance(dygraph_func, StaticFunction) else to_static(dygraph_func)

    def get_code(self, dygraph_func: Any) -> str:
        """The Python text that is compiled."""
        found: str = self.get_func(dygraph_func).code
        return found


class TracedLayer(Shown):
    """A Layer as a program that needs none of its Python code, made by `TracedLayer.trace`."""

    def __init__(self, program: Program, parameters: Sequence[Any], feed_names: Sequence[str], fetch_names: Sequence[str]):
        self._program, self._feed_names, self._fetch_names = program, list(feed_names), list(fetch_names)
        self._parameters = list(parameters)
        self._scope = Scope()
        self._executor = Executor()

    @property
    def program(self) -> Program:
        """The program, whose inputs are `feed_0`, `feed_1`, ..."""
        return self._program

    @staticmethod
    def trace(layer: Layer, inputs: Any) -> tuple[Any, TracedLayer]:
        """What the Layer makes of these tensors, and the Layer as a program for inputs of the same dtypes, and shapes but for the first
        axis. The program shares the Layer's parameters.
        """
        if not in_dygraph_mode():
            raise RuntimeError("expected TracedLayer.trace inside fluid.dygraph.guard()")
        if not isinstance(layer, Layer):
            raise TypeError(f"expected a Layer for TracedLayer.trace but got {type(layer).__name__}")
        given = list(inputs) if isinstance(inputs, (list, tuple)) else [inputs]
        outs = layer(*given)
        program = Program()
        with dygraph_mode(False), program_guard(program, Program()):
            feeds = [data(f"feed_{i}", [-1, *x.shape[1:]] if x.ndim else [], x.dtype) for i, x in enumerate(given)]
            made = layer(*feeds)
        fetched = list(made) if isinstance(made, (list, tuple)) else [made]
        held = [*layer.parameters(), *layer.buffers()]
        used = {v.name for v in program.list_vars()}
        return outs, TracedLayer(program, [p for p in held if p.name in used], [f.name for f in feeds], [v.name for v in fetched])

    def set_strategy(self, build_strategy: Any = None, exec_strategy: Any = None) -> None:
        """How the program is built and run; its one replica is compiled as a whole whatever they say."""

    def __call__(self, inputs: Sequence[Any]) -> list[np.ndarray]:
        """The results for a list of tensors, as arrays."""
        if not isinstance(inputs, (list, tuple)):
            raise AssertionError("Inputs should be a list or tuple of variables")
        if len(inputs) != len(self._feed_names):
            raise AssertionError(f"expected {len(self._feed_names)} inputs but got {len(inputs)}")
        feed = {name: x.numpy() if isinstance(x, Tensor) else x for name, x in zip(self._feed_names, inputs, strict=True)}
        with dygraph_mode(False), scope_guard(self._scope):
            found: list[np.ndarray] = self._executor.run(self._program, feed=feed, fetch_list=self._fetch_names)
        return found

    def save_inference_model(self, dirname: str, feed: Sequence[int] | None = None, fetch: Sequence[int] | None = None) -> None:
        """Write the program into the folder `dirname`, with the inputs and results of these numbers, or all."""
        feeds = self._feed_names if feed is None else [self._feed_names[i] for i in feed]
        names = self._fetch_names if fetch is None else [self._fetch_names[i] for i in fetch]
        block = self._program.global_block()
        with dygraph_mode(False), scope_guard(self._scope):
            save_inference_model(dirname, feeds, [block.var(name) for name in names], self._executor, self._program.clone())


__dir__ = listed(__name__)
