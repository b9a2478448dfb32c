"""The random generator of `paddle.seed`: Paddle's 64-bit Mersenne twister, one for the whole program.

Its state is a tensor, so that a traced function can take it as an argument and give back the next one.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from polyreme import dispatch, tape
from polyreme.compiled import native_draws
from polyreme.device import current_place, is_compiled_with_cuda
from polyreme.dialects import host, mt19937
from polyreme.dialects import nn as ops
from polyreme.ir.core import Op
from polyreme.ir.dims import Dim
from polyreme.ir.types import ScalarType
from polyreme.tensor import Tensor

__all__ = ["get_cuda_rng_state", "get_rng_state", "seed", "set_cuda_rng_state", "set_rng_state"]

Array = np.ndarray[Any, Any]


class Generator:
    """A twister and the seed it started from. `state` is a tensor of 313 uint64: the words, then how many are used up."""

    def __init__(self, seed: int):
        self.state = Tensor._wrap(np.zeros(mt19937.STATE_WORDS, np.uint64))
        self.state.name = "random_state"
        self.manual_seed(seed)

    def manual_seed(self, seed: int) -> Generator:
        self._seed = seed
        self._set(mt19937.seed_state(seed))
        return self

    @classmethod
    def plain(cls, seed: int) -> Generator:
        """One seeded as Paddle's operators with a `seed` attribute other than 0 are: the number itself, without a seed sequence."""
        made = cls(seed)
        made._set(mt19937.plain_state(seed))
        if dispatch.active_trace() is not None:
            # A constant: every run of the program starts from it.
            made.state = dispatch.constant(made._words())
        return made

    def __repr__(self) -> str:
        return f"Generator(seed={self._seed})"

    def initial_seed(self) -> int:
        return self._seed

    def get_state(self) -> Array:
        return self.state.numpy()

    def set_state(self, state: Any) -> None:
        words = np.asarray(state)
        if words.shape != (mt19937.STATE_WORDS,) or words.dtype != np.uint64 or words[-1] > mt19937.WORDS:
            raise ValueError(f"expected a state as get_rng_state() gives it but got an array of {words.dtype} and shape {words.shape}")
        self._set(words)

    def _set(self, words: Array) -> None:
        self.state._put(words.copy())

    # --- draws

    def uniform(self, shape: Sequence[Dim], low: float, high: float, dtype: ScalarType) -> Tensor:
        """Numbers in [low, high), as an op: traced functions draw when they run."""
        with tape.recording(False):
            if dispatch.active_trace() is None and current_place().is_cpu_place():
                # Words are drawn as the op's reference draws them, without planning a call per shape and range.
                sizes = tuple(int(d) for d in shape)
                values, state = mt19937.uniform(self._words(), sizes, low, high, dtype.np, native_draws.units_for(math.prod(sizes)))
                self._set(state)
                return Tensor._wrap(values)
            return self._drawn(ops.Uniform, shape=tuple(shape), low=float(low), high=float(high), dtype=dtype)

    def normal(self, shape: Sequence[Dim], mean: float, std: float, dtype: ScalarType) -> Tensor:
        """Normal numbers by the polar method. Traced functions draw them on the host when they run: drawing until it succeeds is nothing
        for a kernel.
        """
        if dispatch.active_trace() is not None:
            return self._drawn(host.Normal, shape=tuple(shape), mean=float(mean), std=float(std), dtype=dtype)
        sizes = tuple(int(d) for d in shape)
        values, state = mt19937.normal(self._words(), sizes, mean, std, dtype.np, native_draws.units_for(math.prod(sizes)))
        self._set(state)
        return Tensor._wrap(values)

    def integers(self, low: int, high: int, shape: Sequence[Dim], dtype: ScalarType) -> Tensor:
        """Whole numbers in [low, high); in traced functions as `normal` has it."""
        if dispatch.active_trace() is not None:
            return self._drawn(host.Integers, shape=tuple(shape), low=low, high=high, dtype=dtype)
        values, state = mt19937.integers(self._words(), tuple(int(d) for d in shape), low, high)
        self._set(state)
        return Tensor._wrap(values.astype(dtype.np))

    def permutation(self, count: Dim) -> Tensor:
        """The numbers below `count` in random order, int64; in traced functions as `normal` has it."""
        if dispatch.active_trace() is not None:
            return self._drawn(host.Permutation, count=count)
        values, state = mt19937.permutation(self._words(), int(count))
        self._set(state)
        return Tensor._wrap(values)

    def _drawn(self, cls: type[Op], **attributes: Any) -> Tensor:
        with tape.recording(False):
            made, state = dispatch.call(cls, self.state, **attributes)
            dispatch.assign(self.state, state)
        return made

    def _words(self) -> Array:
        return self.state._array("drawing")


_generator: Generator | None = None


def default_generator() -> Generator:
    """The program's generator; before `paddle.seed` its seed is from the system."""
    global _generator
    if _generator is None:
        _generator = Generator(secrets.randbits(32))
    return _generator


@contextmanager
def drawing_from(generator: Generator | None) -> Iterator[None]:
    """Let `generator` be the program's inside the `with`; None changes nothing."""
    global _generator
    saved = _generator
    if generator is not None:
        _generator = generator
    try:
        yield
    finally:
        if generator is not None:
            _generator = saved


def seed(seed: int) -> Generator:
    """Start the generator anew; the draws after it are those of Paddle on a CPU."""
    return default_generator().manual_seed(int(seed))


def get_rng_state(device: str | None = None) -> list[Array]:
    """The state, for `set_rng_state`."""
    return [default_generator().get_state()]


def set_rng_state(state_list: Sequence[Any], device: str | None = None) -> None:
    """Go on from a state that `get_rng_state` gave."""
    if len(state_list) != 1:
        raise ValueError(f"expected the states of 1 generator but got {len(state_list)}")
    default_generator().set_state(state_list[0])


def get_cuda_rng_state() -> list[Array]:
    """The states of the generators of GPUs, for `set_cuda_rng_state`: none without a GPU, else the program's one, which draws for every
    device.
    """
    return get_rng_state() if is_compiled_with_cuda() else []


def set_cuda_rng_state(state_list: Sequence[Any]) -> None:
    """Go on from states that `get_cuda_rng_state` gave. Nothing happens without a GPU, as with Paddle."""
    if is_compiled_with_cuda():
        set_rng_state(state_list)
