"""`fluid.DataFeeder`: from mini-batches of samples to what `Executor.run` is fed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from polyreme.dtypes import as_dtype
from polyreme.fluid.framework import Program, default_main_program, in_dygraph_mode
from polyreme.ir import config
from polyreme.names import listed
from polyreme.static.lod.tensor import LoDTensor, offsets_of
from polyreme.static.variable import Variable
from polyreme.utils.shown import Shown

__all__ = ["DataFeeder", "DataToLoDTensorConverter", "check_dtype", "check_type", "check_variable_and_dtype", "convert_dtype"]


# --- what layers of one's own ask of their inputs


def convert_dtype(dtype: Any) -> str:
    """The name of an element type, as of `x.dtype`: "float32"; a `TypeError` where it is none."""
    return str(as_dtype(dtype).name)


def check_type(input: Any, input_name: str, expected_type: Any, op_name: str, extra_message: str = "") -> None:
    """Refuse, with a `TypeError`, an input of a layer that is of another class; inside `dygraph.guard()` nothing is asked."""
    if not in_dygraph_mode() and not isinstance(input, expected_type):
        raise TypeError(
            f"The type of '{input_name}' in {op_name} must be {expected_type}, but received {type(input)}. {extra_message}".rstrip()
        )


def check_dtype(input_dtype: Any, input_name: str, expected_dtype: Any, op_name: str, extra_message: str = "") -> None:
    """Refuse, with a `TypeError`, an input of a layer that has another element type than those named."""
    if not in_dygraph_mode() and convert_dtype(input_dtype) not in expected_dtype:
        raise TypeError(
            f"The data type of '{input_name}' in {op_name} must be {expected_dtype}, but received {convert_dtype(input_dtype)}. "
            f"{extra_message}".rstrip()
        )


def check_variable_and_dtype(input: Any, input_name: str, expected_dtype: Any, op_name: str, extra_message: str = "") -> None:
    """Both, of an input that is to be a Variable."""
    check_type(input, input_name, Variable, op_name, extra_message)
    check_dtype(input.dtype, input_name, expected_dtype, op_name, extra_message)


# --- mini-batches


class DataToLoDTensorConverter(Shown):
    """Gathers the values of one input, sample by sample; `done()` gives the batch."""

    def __init__(self, place: Any, lod_level: int, shape: Sequence[int], dtype: Any):
        self.place, self.lod_level, self.dtype = place, lod_level, np.dtype(dtype)
        self.shape = [size if isinstance(size, (int, np.integer)) and size >= 0 else -1 for size in shape]
        self._reset()

    def _reset(self) -> None:
        self.data: list[Any] = []
        self.lengths: list[list[int]] = [[] for _ in range(self.lod_level)]

    def feed(self, data: Any) -> None:
        """Add the value of a sample."""
        self._feed(data, self.lengths, self.lod_level)

    def _feed(self, data: Any, lengths: list[list[int]], level: int) -> None:
        if level == 0:
            self.data.append(data)
            return
        lengths[0].append(len(data))
        for item in data:
            self._feed(item, lengths[1:], level - 1)

    def _stacked(self) -> np.ndarray[Any, Any]:
        if not self.data:
            return np.zeros([0 if size == -1 else size for size in self.shape], self.dtype)
        array = np.array(self.data, self.dtype)
        # What has as many axes stays as it is: whether it fits is told when it is fed.
        if len(self.shape) == array.ndim or self.shape.count(-1) > 1:
            return array
        # Samples are rows, as the variable has them, or without levels several each: of 784 numbers, of [1, 28, 28].
        try:
            made = array.reshape(self.shape)
        except ValueError:
            made = None
        rows = len(self.data)
        if made is None or self.shape[:1] == [-1] and (len(made) % rows or self.lod_level and len(made) != rows):
            raise ValueError(f"Reshape error. What is defined in data layer: {self.shape}, what is received: {list(array.shape)}")
        return made

    def done(self) -> LoDTensor:
        """The batch, with its levels; what comes next begins another."""
        made = LoDTensor(self._stacked())
        if self.lod_level:
            made._lod = offsets_of(self.lengths)
        self._reset()
        return made


class DataFeeder(Shown):
    """Turns mini-batches, lists of samples with a value for each of `feed_list`, into feeds.

    `feed_list` has variables of `program` (by default the default main program), or their names; one that is not there is a `ValueError`.
    """

    def __init__(self, feed_list: Sequence[Any], place: Any, program: Program | None = None):
        chosen = program or default_main_program()
        self.feed_names: list[str] = []
        self._inputs: list[tuple[int, list[int], Any]] = []
        for item in feed_list:
            variable = chosen.global_block().var(item) if isinstance(item, str) else item
            if not isinstance(variable, Variable):
                raise TypeError("Feed list should contain a list of variable")
            if not chosen.global_block().has_var(variable.name):
                raise ValueError(f"expected variables of the program in the feed_list but '{variable.name}' is not in it")
            self.feed_names.append(variable.name)
            self._inputs.append((variable.lod_level, list(variable.shape), variable.type.dtype.np))
        self.place = place

    def feed(self, iterable: Iterable[Any]) -> dict[str, LoDTensor]:
        """A mini-batch as {name: tensor}: cast to the variable's dtype, stacked, in the variable's shape. Sequences are joined, and their
        lengths are the levels of the tensor.
        """
        converters = [DataToLoDTensorConverter(self.place, *given) for given in self._inputs]
        for sample in iterable:
            if len(sample) != len(converters):
                raise ValueError(
                    f"The number of fields in data ({len(sample)}) does not match len(feed_list) ({len(converters)}), which are "
                    f"{', '.join(self.feed_names)}"
                )
            for converter, value in zip(converters, sample, strict=True):
                converter.feed(value)
        return {name: converter.done() for name, converter in zip(self.feed_names, converters, strict=True)}

    def feed_parallel(self, iterable: Iterable[Any], num_places: int | None = None) -> Iterator[dict[str, LoDTensor]]:
        """Several mini-batches, one per device, as one dict each; a `ValueError` where there are not as many as devices."""
        batches = list(iterable)
        places = self._places(num_places)
        if len(batches) != places:
            raise ValueError(f"feed_parallel takes multiple mini-batches, one for each of {places} devices, but it got {len(batches)}")
        for batch in batches:
            yield self.feed(batch)

    @staticmethod
    def _places(num_places: int | None) -> int:
        return config.cpu_number() if num_places is None else int(num_places)

    def decorate_reader(
        self, reader: Callable[[], Iterable[Any]], multi_devices: bool = False, num_places: int | None = None, drop_last: bool = True
    ) -> Callable[[], Iterator[Any]]:
        """A reader of feeds, of a reader of mini-batches. With `multi_devices` an item is a list of feeds, one per device; batches that are
        left over at the end are dropped, or without `drop_last` a `ValueError`.
        """

        def single() -> Iterator[Any]:
            for batch in reader():
                yield self.feed(batch)

        def multiple() -> Iterator[Any]:
            places = self._places(num_places)
            gathered: list[Any] = []
            for batch in reader():
                gathered.append(batch)
                if len(gathered) == places:
                    yield list(self.feed_parallel(gathered, places))
                    gathered = []
            if gathered and not drop_last:
                raise ValueError(
                    f"The data batch which cannot fit for devices will be dropped is not implementation. Other strategies are not "
                    f"implemented: {len(gathered)} batches are left for {places} devices"
                )

        return multiple if multi_devices else single


__dir__ = listed(__name__)
