"""Decoding step by step: `dynamic_decode` with a decoder, such as `BeamSearchDecoder`, or `BasicDecoder` with a helper."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from polyreme.fluid.framework import default_main_program
from polyreme.fluid.layer_helper import LayerHelper
from polyreme.fluid.layers.cells import by_steps, kept_where_over
from polyreme.fluid.layers.control_flow import While, array_read, array_write, create_array, increment, tensor_array_to_tensor
from polyreme.fluid.layers.elementwise import (
    elementwise_add,
    elementwise_div,
    elementwise_floordiv,
    elementwise_mod,
    equal,
    less_equal,
    logical_and,
    logical_not,
    logical_or,
)
from polyreme.fluid.layers.given import takes
from polyreme.fluid.layers.images import pad
from polyreme.fluid.layers.nn import expand, gather, reduce_all, reshape, softmax, squeeze, stack, topk, unsqueeze
from polyreme.fluid.layers.ops import cumsum, log
from polyreme.fluid.layers.places import sampling_id
from polyreme.fluid.layers.tensor import argmax, assign, cast, fill_constant, fill_constant_batch_size_like, ones_like, zeros_like
from polyreme.names import listed
from polyreme.nn.decode import Decoder
from polyreme.utils.shown import Shown
from polyreme.utils.structures import flatten, map_structure

__all__ = [
    "BasicDecoder", "BeamSearchDecoder", "DecodeHelper", "Decoder", "GreedyEmbeddingHelper", "SampleEmbeddingHelper",
    "TrainingHelper", "beam_search", "beam_search_decode", "dynamic_decode", "gather_tree",
]  # fmt: skip

_NEVER = 1e9


@takes("ids", "parents")
def gather_tree(ids: Any, parents: Any) -> Any:
    """The sequences that end in each beam after a beam search, [steps, batch, beams], from the last step back: `ids` are what was chosen
    in each step, and `parents` which beam of the step before it goes on from.
    """
    helper = LayerHelper("gather_tree")
    out = helper.create_variable_for_type_inference(ids.dtype, stop_gradient=True)
    helper.append_op("gather_tree", {"Ids": ids, "Parents": parents}, {"Out": out})
    return out


@takes("pre_ids", "pre_scores", "scores")
def beam_search(
    pre_ids: Any, pre_scores: Any, ids: Any, scores: Any, beam_size: int, end_id: int, level: int = 0, is_accumulated: bool = True,
    name: str | None = None, return_parent_idx: bool = False,
) -> Any:  # fmt: skip
    """A step of a beam search: of the words `ids` [rows, words] (None: all words in order) that may follow the rows of each source, which
    `level` of the levels of `scores` tells, the `beam_size` best by their `scores`: words and scores [chosen, 1], as sequences of two
    levels, and with `return_parent_idx` the rows that they follow.

    `pre_ids` and `pre_scores` [rows, 1] are what the rows end with. Unless scores are accumulated they are probabilities, whose logarithms
    are added. A row that ended with `end_id` goes on with that alone; a source whose rows have all ended is left without any.
    """
    helper = LayerHelper("beam_search", name=name)
    words = helper.create_variable_for_type_inference(pre_ids.dtype, stop_gradient=True)
    total = helper.create_variable_for_type_inference(pre_scores.dtype)
    parents = helper.create_variable_for_type_inference("int32", stop_gradient=True)
    slots = {"pre_ids": pre_ids, "pre_scores": pre_scores, "ids": ids, "scores": scores}
    attrs = {"level": level, "beam_size": beam_size, "end_id": end_id, "is_accumulated": is_accumulated}
    helper.append_op("beam_search", slots, {"selected_ids": words, "selected_scores": total, "parent_idx": parents}, attrs)
    return (words, total, parents) if return_parent_idx else (words, total)


@takes("ids", "scores")
def beam_search_decode(ids: Any, scores: Any, beam_size: int, end_id: int, name: str | None = None) -> tuple[Any, Any]:
    """The sentences that a search ended in, from arrays of the words and scores that `beam_search` chose in each step: words and scores,
    as sequences of two levels, `beam_size` sentences of each source. The one with the best last score comes first.
    """
    helper = LayerHelper("beam_search_decode", name=name)
    words = helper.create_variable_for_type_inference(ids.dtype, stop_gradient=True)
    gained = helper.create_variable_for_type_inference(scores.dtype, stop_gradient=True)
    attrs = {"beam_size": beam_size, "end_id": end_id}
    helper.append_op("beam_search_decode", {"Ids": ids, "Scores": scores}, {"SentenceIds": words, "SentenceScores": gained}, attrs)
    return words, gained


def _gathered(x: Any, index: Any) -> Any:
    helper = LayerHelper("gather_nd")
    out = helper.create_variable_for_type_inference(x.dtype)
    helper.append_op("gather_nd", {"X": x, "Index": index}, {"Out": out})
    return out


class BeamSearchDecoder(Decoder):
    """Keeps the `beam_size` most likely sequences of each batch entry.

    `cell` makes a step, `output_fn` turns its outputs into scores of the words (by default they are), `embedding_fn` makes inputs of words
    [batch, beams]. Every sequence starts with `start_token`; one that took `end_token` is finished, and goes on with it at no cost. States
    and outputs have an axis of beams behind the batch.
    """

    class OutputWrapper(NamedTuple):
        """Of a step, each [batch, beams]: logarithms of probabilities, words, and the beams they go on from."""

        scores: Any
        predicted_ids: Any
        parent_ids: Any

    class StateWrapper(NamedTuple):
        """The cell's states, and of each beam the logarithm of its probability, whether it is finished, and its length."""

        cell_states: Any
        log_probs: Any
        finished: Any
        lengths: Any

    def __init__(
        self, cell: Any, start_token: int, end_token: int, beam_size: int, embedding_fn: Callable[..., Any] | None = None,
        output_fn: Callable[..., Any] | None = None,
    ):  # fmt: skip
        self.cell, self.embedding_fn, self.output_fn = cell, embedding_fn, output_fn
        self.start_token, self.end_token, self.beam_size = start_token, end_token, beam_size

    @staticmethod
    @takes("x")
    def tile_beam_merge_with_batch(x: Any, beam_size: int) -> Any:
        """[batch, …] as [batch * beam_size, …], each entry repeated: for what the cell needs beside its states."""
        repeated = expand(unsqueeze(x, [1]), [1, beam_size, *[1] * (len(x.shape) - 1)])
        return reshape(repeated, [-1, *x.shape[1:]])

    def _split_batch_beams(self, x: Any) -> Any:
        """[batch * beams, …] as [batch, beams, …]."""
        return reshape(x, [-1, self.beam_size, *x.shape[1:]])

    def _merge_batch_beams(self, x: Any) -> Any:
        """[batch, beams, …] as [batch * beams, …]."""
        return reshape(x, [-1, *x.shape[2:]])

    def _expand_to_beam_size(self, x: Any) -> Any:
        """[batch, …] as [batch, beams, …], each entry repeated."""
        return expand(unsqueeze(x, [1]), [1, self.beam_size, *[1] * (len(x.shape) - 1)])

    def _gather(self, x: Any, places: Any) -> Any:
        """Of [batch, n, …] those at `places` [batch, beams]."""
        rows = cumsum(ones_like(places), axis=0) - 1
        where = stack([rows, places], axis=2)
        where.stop_gradient = True
        return _gathered(x, where)

    def initialize(self, initial_cell_states: Any) -> tuple[Any, StateWrapper, Any]:
        """First inputs: the start token, embedded. All beams are alike at first, so all but one of each entry are as good as impossible."""
        like = flatten(initial_cell_states)[0]

        def filled(kind: str, value: float) -> Any:
            return fill_constant_batch_size_like(like, [-1, self.beam_size], kind, value)

        words = filled("int64", self.start_token)
        first = assign(np.array([[0.0] + [-_NEVER] * (self.beam_size - 1)], "float32"))
        log_probs = elementwise_add(filled("float32", 0.0), first)
        finished = filled("bool", False)
        states = map_structure(self._expand_to_beam_size, initial_cell_states)
        inputs = self.embedding_fn(words) if self.embedding_fn else words
        return inputs, self.StateWrapper(states, log_probs, finished, filled("int64", 0)), finished

    def step(self, time: Any, inputs: Any, states: Any, **kwargs: Any) -> tuple[OutputWrapper, StateWrapper, Any, Any]:
        """One step of the cell, with `kwargs`, on all beams, and the best words after it."""
        merged = map_structure(self._merge_batch_beams, inputs), map_structure(self._merge_batch_beams, states.cell_states)
        outputs, cell_states = self.cell(*merged, **kwargs)
        logits = map_structure(self._split_batch_beams, outputs)
        if self.output_fn is not None:
            logits = self.output_fn(logits)
        chosen, after = self._best(logits, map_structure(self._split_batch_beams, cell_states), states)
        words = chosen.predicted_ids
        words.stop_gradient = True
        return chosen, after, self.embedding_fn(words) if self.embedding_fn else words, after.finished

    def _best(self, logits: Any, cell_states: Any, states: StateWrapper) -> tuple[OutputWrapper, StateWrapper]:
        """The `beam_size` best of all words after all beams; after a finished beam only the end token comes, with probability 1."""
        size = logits.shape[-1]
        only_end = np.full(size, -_NEVER, "float32")
        only_end[self.end_token] = 0
        over = unsqueeze(cast(states.finished, "float32"), [2])
        gained = elementwise_add(log(softmax(logits)) * (1 - over), expand(over, [1, 1, size]) * assign(only_end))
        total = reshape(elementwise_add(gained, states.log_probs, axis=0), [-1, self.beam_size * size])
        scores, places = topk(total, self.beam_size)
        count = fill_constant([1], "int64", size)
        beams, words = elementwise_floordiv(places, count), elementwise_mod(places, count)
        cell_states = map_structure(lambda x: self._gather(x, beams), cell_states)
        finished, lengths = self._gather(states.finished, beams), self._gather(states.lengths, beams)
        lengths = elementwise_add(lengths, cast(logical_not(finished), "int64"))
        finished = logical_or(finished, equal(words, fill_constant([1], "int64", self.end_token)))
        log_probs = self._gather(total, places)
        return self.OutputWrapper(scores, words, beams), self.StateWrapper(cell_states, log_probs, finished, lengths)

    def finalize(self, outputs: Any, final_states: Any, sequence_lengths: Any) -> tuple[Any, Any]:
        """The words of the sequence that ends in each beam, [steps, batch, beams]."""
        return gather_tree(outputs.predicted_ids, outputs.parent_ids), final_states


def dynamic_decode(
    decoder: Any, inits: Any = None, max_step_num: int | None = None, output_time_major: bool = False, impute_finished: bool = False,
    is_test: bool = False, return_length: bool = False, **kwargs: Any,
) -> Any:  # fmt: skip
    """Let `decoder` make steps until all sequences are finished, or `max_step_num` + 1 of them: outputs and last states.

    Outputs are [batch, steps, …], or [steps, batch, …] with `output_time_major`. With `impute_finished`, finished sequences keep their
    states. With `is_test` no gradient goes through the steps. With `return_length` the lengths come third, int64. `kwargs` go to
    `decoder.step`.
    """
    inputs, states, finished = decoder.initialize(inits)
    finished.stop_gradient = True
    # What the loop writes over is none of the program's other variables.
    over = assign(finished)
    number = fill_constant([1], "int64", 0)
    again = logical_not(reduce_all(over))
    most = None if max_step_num is None else fill_constant([1], "int64", max_step_num)
    lengths = cast(zeros_like(cast(over, "int64")), "int64")
    lengths.stop_gradient = over.stop_gradient = True
    carried: Any
    if is_test:
        carried = map_structure(assign, (inputs, states))
    else:
        carried = map_structure(lambda x: array_write(x, number), (inputs, states))
    loop, block = While(again, is_test=is_test), default_main_program().current_block_idx
    with loop.block():
        inputs, states = carried if is_test else map_structure(lambda array: array_read(array, number), carried)
        outputs, after, new_inputs, now = decoder.step(number, inputs, states, **kwargs)
        now = logical_or(now, over)
        longer = elementwise_add(lengths, cast(logical_not(over), "int64"))
        if impute_finished:
            after = map_structure(lambda old, new: kept_where_over(old, new, over), states, after)
        arrays = map_structure(lambda x: _array_outside(x, block), outputs)
        map_structure(lambda x, array: array_write(x, number, array=array), outputs, arrays)
        increment(number, 1.0)
        if is_test:
            map_structure(assign, (new_inputs, after), carried)
        else:
            map_structure(lambda x, array: array_write(x, number, array=array), (new_inputs, after), carried)
        assign(now, over)
        assign(longer, lengths)
        goes_on = logical_not(reduce_all(over))
        if most is not None:
            goes_on = logical_and(goes_on, less_equal(number, most))
        assign(goes_on, again)
    results = map_structure(lambda array: tensor_array_to_tensor(array, axis=0, use_stack=True)[0], arrays)
    finals = carried[1] if is_test else map_structure(lambda array: array_read(array, number), carried[1])
    if type(decoder).finalize is not Decoder.finalize:
        results, finals = decoder.finalize(results, finals, lengths)
    if not output_time_major:
        results = map_structure(by_steps, results)
    return (results, finals, lengths) if return_length else (results, finals)


def _array_outside(x: Any, block: int) -> Any:
    """An array of elements like `x`, in a block around the current one."""
    program = default_main_program()
    here, program.current_block_idx = program.current_block_idx, block
    try:
        return create_array(x.dtype)
    finally:
        program.current_block_idx = here


class DecodeHelper(Shown):
    """What `BasicDecoder` asks of a helper."""

    def initialize(self) -> tuple[Any, Any]:
        """The first inputs, and which sequences are finished before the first step."""
        raise NotImplementedError(f"expected '{type(self).__name__}' to define initialize()")

    def sample(self, time: Any, outputs: Any, states: Any) -> Any:
        """Words for the outputs of a step."""
        raise NotImplementedError(f"expected '{type(self).__name__}' to define sample()")

    def next_inputs(self, time: Any, outputs: Any, states: Any, sample_ids: Any) -> tuple[Any, Any, Any]:
        """Which sequences are finished now, the next inputs, and the states."""
        raise NotImplementedError(f"expected '{type(self).__name__}' to define next_inputs()")


class TrainingHelper(DecodeHelper):
    """Gives the steps of `inputs` [batch, steps, …], or [steps, batch, …] with `time_major`, whatever is decoded."""

    def __init__(self, inputs: Any, sequence_length: Any, time_major: bool = False):
        self.inputs, self.sequence_length, self.time_major = inputs, sequence_length, time_major
        laid = inputs if time_major else map_structure(by_steps, inputs)
        # A step more, which is read behind the last one.
        self._steps = map_structure(lambda x: pad(x, [0, 1] + [0, 0] * (len(x.shape) - 1)), laid)

    def _step(self, number: Any) -> Any:
        return map_structure(lambda x: squeeze(gather(x, number), [0]), self._steps)

    def initialize(self) -> tuple[Any, Any]:
        finished = equal(self.sequence_length, fill_constant([1], self.sequence_length.dtype, 0))
        return self._step(fill_constant([1], "int64", 0)), finished

    def sample(self, time: Any, outputs: Any, states: Any) -> Any:
        return argmax(outputs, axis=-1)

    def next_inputs(self, time: Any, outputs: Any, states: Any, sample_ids: Any) -> tuple[Any, Any, Any]:
        following = increment(time, 1.0, in_place=False)
        return less_equal(cast(self.sequence_length, "int64"), following), self._step(following), states


class GreedyEmbeddingHelper(DecodeHelper):
    """Gives the best word of each step, embedded, from `start_tokens` [batch] on; a sequence is finished behind `end_token`."""

    def __init__(self, embedding_fn: Callable[..., Any], start_tokens: Any, end_token: int):
        self.embedding_fn, self.start_tokens = embedding_fn, start_tokens
        self.end_token = fill_constant([1], "int64", end_token)

    def initialize(self) -> tuple[Any, Any]:
        finished = fill_constant_batch_size_like(self.start_tokens, [-1], "bool", False)
        return self.embedding_fn(self.start_tokens), finished

    def sample(self, time: Any, outputs: Any, states: Any) -> Any:
        return argmax(outputs, axis=-1)

    def next_inputs(self, time: Any, outputs: Any, states: Any, sample_ids: Any) -> tuple[Any, Any, Any]:
        return equal(sample_ids, self.end_token), self.embedding_fn(sample_ids), states


class SampleEmbeddingHelper(GreedyEmbeddingHelper):
    """As `GreedyEmbeddingHelper`, with words drawn by the softmax of the outputs, which `softmax_temperature` divides. A `seed` other than
    None and 0 makes each run draw the same words.
    """

    def __init__(
        self, embedding_fn: Callable[..., Any], start_tokens: Any, end_token: int, softmax_temperature: float | None = None,
        seed: int | None = None,
    ):  # fmt: skip
        super().__init__(embedding_fn, start_tokens, end_token)
        self.softmax_temperature = None if softmax_temperature is None else fill_constant([1], "float32", softmax_temperature)
        self.seed = seed

    def sample(self, time: Any, outputs: Any, states: Any) -> Any:
        scores = outputs if self.softmax_temperature is None else elementwise_div(outputs, self.softmax_temperature)
        shares = softmax(scores)
        shares.stop_gradient = True
        return sampling_id(shares, seed=self.seed or 0)


class BasicDecoder(Decoder):
    """Lets a cell make the steps and a helper say what they are given; outputs are those of the cell, through `output_fn`, and words."""

    class OutputWrapper(NamedTuple):
        """Of a step."""

        cell_outputs: Any
        sample_ids: Any

    def __init__(self, cell: Any, helper: Any, output_fn: Callable[..., Any] | None = None):
        self.cell, self.helper, self.output_fn = cell, helper, output_fn

    def initialize(self, initial_cell_states: Any) -> tuple[Any, Any, Any]:
        inputs, finished = self.helper.initialize()
        return inputs, initial_cell_states, finished

    def step(self, time: Any, inputs: Any, states: Any, **kwargs: Any) -> tuple[OutputWrapper, Any, Any, Any]:
        outputs, cell_states = self.cell(inputs, states, **kwargs)
        if self.output_fn is not None:
            outputs = self.output_fn(outputs)
        words = self.helper.sample(time=time, outputs=outputs, states=cell_states)
        words.stop_gradient = True
        finished, following, after = self.helper.next_inputs(time=time, outputs=outputs, states=cell_states, sample_ids=words)
        return self.OutputWrapper(outputs, words), after, following, finished


__dir__ = listed(__name__)
