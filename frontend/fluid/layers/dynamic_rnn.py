"""`DynamicRNN`: a recurrent net over sequences of different lengths, which is a `StaticRNN` over their rows by steps."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from polyreme.fluid.framework import default_main_program
from polyreme.fluid.layer_helper import LayerHelper
from polyreme.fluid.layers.control_flow import StaticRNN
from polyreme.fluid.layers.nn import gather
from polyreme.fluid.layers.tensor import fill_constant_batch_size_like
from polyreme.names import listed
from polyreme.operators.arguments import UnsupportedError
from polyreme.utils.shown import Shown

__all__ = ["DynamicRNN"]


class _Steps(StaticRNN):
    """The loop over the steps, whose rows are of sequences. `static` has inputs with a row for each sequence at all steps."""

    _type = "recurrent_over_sequences"

    def static_input(self, x: Any) -> None:
        """Let the body read `x`."""
        if all(x.name != other.name for other in self._static):
            self._static.append(x)


class DynamicRNN(Shown):
    """A body that runs for each row of sequences, for all sequences that have one at once:

        rnn = fluid.layers.DynamicRNN()
        with rnn.block():
            word, before = rnn.step_input(sentence), rnn.memory(shape=[20], value=0.0)
            hidden = fluid.layers.fc([word, before], size=20, act="tanh")
            rnn.update_memory(before, hidden)
            rnn.output(hidden)
        hiddens = rnn()  # sequences as those of `sentence`

    The body sees the sequences in the order of the input, and one that has ended keeps its memories: each row of what the body computes
    must be of its own sequence alone.
    """

    BEFORE_RNN, IN_RNN, AFTER_RNN = 0, 1, 2

    def __init__(self, name: str | None = None):
        self.helper = LayerHelper("dynamic_rnn", name=name)
        self.status = self.BEFORE_RNN
        self._rnn = _Steps()
        self._parent = 0
        self._like: Any = None  # the first input, whose sequences the results are
        self._layout: tuple[Any, Any, Any] | None = None  # its places, its mask, its ranks
        self._mask: Any = None  # that of this step
        self._outputs: list[Any] = []

    @contextmanager
    def block(self) -> Iterator[None]:
        """The body."""
        if self.status != self.BEFORE_RNN:
            raise ValueError("rnn.block() can only be invoke once")
        program = default_main_program()
        self._parent = program.current_block_idx
        with self._rnn.step():
            self.status = self.IN_RNN
            yield
            if self._layout is None:
                raise ValueError("expected a step_input in the block of a DynamicRNN")
        self.status = self.AFTER_RNN
        rows = self._rnn()
        for out in rows if isinstance(rows, list) else [rows]:
            made = self.helper.create_variable_for_type_inference(out.dtype)
            self.helper.append_op("sequences_of_steps", {"X": out, "Like": self._like}, {"Out": made})
            made.desc_lod_level = self._like.lod_level
            self._outputs.append(made)

    @contextmanager
    def _outside(self) -> Iterator[None]:
        """Operators go in front of the loop."""
        program = default_main_program()
        current = program.current_block_idx
        program.current_block_idx = self._parent
        try:
            yield
        finally:
            program.current_block_idx = current

    def _inside(self, method: str) -> None:
        if self.status != self.IN_RNN:
            raise ValueError(f"{method} can only be invoked inside rnn block.")

    def _appended(self, type: str, inputs: dict[str, Any], dtype: Any) -> Any:
        out = self.helper.create_variable_for_type_inference(dtype)
        self.helper.append_op(type, inputs, {"Out": out})
        return out

    def step_input(self, x: Any, level: int = 0) -> Any:
        """The rows of `x` at this step, one of each sequence. All inputs must have the same lengths."""
        self._inside("step_input")
        if x.lod_level != 1 or level != 0:
            raise UnsupportedError(
                f"expected sequences of rows (lod_level 1, level 0) as step_input of a DynamicRNN but '{x.name}' has lod_level "
                f"{x.lod_level} and level is {level}"
            )
        with self._outside():
            if self._layout is None:
                kinds = ("int64", "bool", "int64")
                places, mask, ranks = (self.helper.create_variable_for_type_inference(k, stop_gradient=True) for k in kinds)
                outputs = {"Places": places, "Mask": mask, "Ranks": ranks}
                self.helper.append_op("steps_of_sequences", {"X": x}, outputs, stop_gradient=True)
                self._like, self._layout = x, (places, mask, ranks)
            else:
                places = self.helper.create_variable_for_type_inference("int64", stop_gradient=True)
                slots = {"X": x, "Like": self._like, "Places": self._layout[0]}
                self.helper.append_op("steps_of_same_lengths", slots, {"Out": places}, stop_gradient=True)
            rows = self._appended("rows_by_steps", {"X": x, "Places": places}, x.dtype)
        if self._mask is None:
            self._mask = self._rnn.step_input(self._layout[1])
        return self._rnn.step_input(rows)

    def static_input(self, x: Any) -> Any:
        """All of `x` at each step: a row for each sequence, or as many sequences of their own, which the operators on sequences take."""
        self._inside("static_input")
        if self._layout is None:
            raise RuntimeError("static_input() must be called after step_input().")
        if x.lod_level > 1:
            raise UnsupportedError(
                f"expected a row for each sequence, or sequences of rows (lod_level 1), as static_input of a DynamicRNN but '{x.name}' has "
                f"lod_level {x.lod_level}"
            )
        self._rnn.static_input(x)
        return x

    def memory(self, init: Any = None, shape: Any = None, value: float = 0.0, need_reorder: bool = False, dtype: Any = "float32") -> Any:
        """What the step before has put into `update_memory`; in the first step `init`, or `value` in [sequences, *shape].

        Row `i` of `init` is of sequence `i` with `need_reorder`, and otherwise of the `i`-th longest one, as in Paddle.
        """
        self._inside("memory")
        if self._layout is None:
            raise ValueError("memory() can only be called after step_input()")
        _, mask, ranks = self._layout
        with self._outside():
            if init is None:
                init = fill_constant_batch_size_like(mask, [-1, *(shape or [])], dtype, value, 1, 0)
                init.stop_gradient = False
            elif not need_reorder:
                init = gather(init, ranks)
        return self._rnn.memory(init=init)

    def update_memory(self, ex_mem: Any, new_mem: Any) -> None:
        """Let the memory be `new_mem` in the next step, for the sequences that have not ended."""
        self._inside("update_memory")
        kept = self._appended("kept_where_last", {"X": new_mem, "Before": ex_mem, "Mask": self._mask}, new_mem.dtype)
        self._rnn.update_memory(ex_mem, kept)

    def output(self, *outputs: Any) -> None:
        """Results of the step: the rows of the sequences that `rnn()` gives."""
        self._inside("output")
        self._rnn.output(*outputs)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The outputs as sequences: one, or a list."""
        if self.status != self.AFTER_RNN:
            raise ValueError("Output of the dynamic RNN can only be visited outside the rnn block.")
        return self._outputs[0] if len(self._outputs) == 1 else self._outputs


__dir__ = listed(__name__)
