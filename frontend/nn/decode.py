"""Decoding step by step until all sequences are finished: `dynamic_decode` with a `Decoder`, such as `BeamSearchDecoder`."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from polyreme import dispatch
from polyreme.dtypes import default_dtype
from polyreme.math.creation import arange, full, to_tensor, zeros_like
from polyreme.math.elementwise import add, where
from polyreme.math.logic import equal, logical_not, logical_or
from polyreme.math.manipulation import gather_nd, reshape, stack, tile, transpose, unsqueeze
from polyreme.math.reduction import all as all_of
from polyreme.math.search import topk
from polyreme.nn import functional as F
from polyreme.tensor import Tensor
from polyreme.utils.shown import Shown
from polyreme.utils.structures import flatten, map_structure

__all__ = ["BeamSearchDecoder", "dynamic_decode"]


class Decoder(Shown):
    """What `dynamic_decode` asks of a decoder."""

    def initialize(self, inits: Any) -> tuple[Any, Any, Tensor]:
        """The first inputs and states, and which sequences are finished before the first step."""
        raise NotImplementedError(f"expected '{type(self).__name__}' to define initialize()")

    def step(self, time: Tensor, inputs: Any, states: Any, **kwargs: Any) -> tuple[Any, Any, Any, Tensor]:
        """Outputs and states after a step, the next inputs, and which sequences are finished."""
        raise NotImplementedError(f"expected '{type(self).__name__}' to define step()")

    def finalize(self, outputs: Any, final_states: Any, sequence_lengths: Tensor) -> tuple[Any, Any]:
        """What to return for the outputs of all steps, [steps, batch, …], and the last states. A decoder may do without."""
        raise NotImplementedError(f"expected '{type(self).__name__}' to define finalize()")

    @property
    def tracks_own_finished(self) -> bool:
        """Whether `step` says all that is finished so far, rather than what is finished by this step."""
        return False


class BeamSearchDecoder(Decoder):
    """Keeps the `beam_size` most likely sequences of each batch entry.

    `cell` makes a step, `output_fn` turns its outputs into scores of the words (by default they are), `embedding_fn` makes inputs of words.
    Every sequence starts with `start_token`; one that took `end_token` is finished, and goes on with it at no cost. States and outputs have
    an axis of beams behind the batch.
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
        self,
        cell: Any,
        start_token: int,
        end_token: int,
        beam_size: int,
        embedding_fn: Callable[..., Any] | None = None,
        output_fn: Callable[..., Any] | None = None,
    ):
        self.cell, self.embedding_fn, self.output_fn = cell, embedding_fn, output_fn
        self.start_token, self.end_token, self.beam_size = start_token, end_token, beam_size

    @staticmethod
    def tile_beam_merge_with_batch(x: Tensor, beam_size: int) -> Tensor:
        """[batch, …] as [batch * beam_size, …], each entry repeated: for what the cell needs beside its states, such as memories to attend
        to.
        """
        repeated = tile(unsqueeze(x, [1]), [1, beam_size, *[1] * (x.ndim - 1)])
        return reshape(repeated, [-1, *x.shape[1:]])

    def _split_batch_beams(self, x: Tensor) -> Tensor:
        """[batch * beams, …] as [batch, beams, …]."""
        return reshape(x, [-1, self.beam_size, *x.shape[1:]])

    def _merge_batch_beams(self, x: Tensor) -> Tensor:
        """[batch, beams, …] as [batch * beams, …]."""
        return reshape(x, [-1, *x.shape[2:]])

    def _expand_to_beam_size(self, x: Tensor) -> Tensor:
        """[batch, …] as [batch, beams, …], each entry repeated."""
        return tile(unsqueeze(x, [1]), [1, self.beam_size, *[1] * (x.ndim - 1)])

    def _gather(self, x: Tensor, beams: Tensor) -> Tensor:
        """Of [batch, beams, …], the beams with these numbers, [batch, beams]."""
        batch = beams.shape[0]
        rows = tile(unsqueeze(arange(batch, dtype=beams.dtype), [1]), [1, beams.shape[1]])
        return gather_nd(x, stack([rows, beams], axis=2))

    def initialize(self, initial_cell_states: Any) -> tuple[Any, StateWrapper, Tensor]:
        """First inputs: the start token, embedded. All beams are alike at first, so all but one of each entry are as good as impossible."""
        batch = flatten(initial_cell_states)[0].shape[0]
        words = full([batch, self.beam_size], self.start_token, "int64")
        kind = "float64" if default_dtype().name == "float64" else "float32"
        log_probs = tile(to_tensor([[0.0] + [-1e9] * (self.beam_size - 1)], dtype=kind), [batch, 1])
        finished = full([batch, self.beam_size], False, "bool")
        states = self.StateWrapper(map_structure(self._expand_to_beam_size, initial_cell_states), log_probs, finished, zeros_like(words))
        return self.embedding_fn(words) if self.embedding_fn else words, states, finished

    def step(self, time: Tensor, inputs: Any, states: Any, **kwargs: Any) -> tuple[OutputWrapper, StateWrapper, Any, Tensor]:
        """One step of the cell, with `kwargs`, on all beams, and the best words after it."""
        merged = map_structure(self._merge_batch_beams, inputs), map_structure(self._merge_batch_beams, states.cell_states)
        outputs, cell_states = self.cell(*merged, **kwargs)
        logits = map_structure(self._split_batch_beams, outputs)
        if self.output_fn is not None:
            logits = self.output_fn(logits)
        chosen, after = self._best(logits, map_structure(self._split_batch_beams, cell_states), states)
        words = chosen.predicted_ids
        return chosen, after, self.embedding_fn(words) if self.embedding_fn else words, after.finished

    def _best(self, logits: Tensor, cell_states: Any, states: StateWrapper) -> tuple[OutputWrapper, StateWrapper]:
        """The `beam_size` best of all words after all beams; after a finished beam only the end token comes, with probability 1."""
        size = logits.shape[-1]
        only_end = np.full(size, -1e9)
        only_end[self.end_token] = 0
        kind = logits.dtype
        gained = where(unsqueeze(states.finished, [2]), to_tensor(only_end, dtype=kind), F.log_softmax(logits))
        total = add(gained, unsqueeze(states.log_probs, [2]))
        scores, places = topk(reshape(total, [-1, self.beam_size * size]), self.beam_size)
        beams, words = places // size, places % size
        finished, lengths = self._gather(states.finished, beams), self._gather(states.lengths, beams)
        lengths = add(lengths, logical_not(finished).astype(lengths.dtype))
        finished = logical_or(finished, equal(words, full([], self.end_token, "int64")))
        cell_states = map_structure(lambda x: self._gather(x, beams), cell_states)
        return self.OutputWrapper(scores, words, beams), self.StateWrapper(cell_states, scores, finished, lengths)

    def finalize(self, outputs: Any, final_states: Any, sequence_lengths: Tensor) -> tuple[Tensor, Any]:
        """The words of the sequence that ends in each beam, [steps, batch, beams]."""
        return F.gather_tree(outputs.predicted_ids, outputs.parent_ids), final_states

    @property
    def tracks_own_finished(self) -> bool:
        """True: beams change places, so that only the decoder knows which are finished."""
        return True


def dynamic_decode(
    decoder: Decoder,
    inits: Any = None,
    max_step_num: int | None = None,
    output_time_major: bool = False,
    impute_finished: bool = False,
    is_test: bool = False,
    return_length: bool = False,
    **kwargs: Any,
) -> Any:
    """Let `decoder` make steps until all sequences are finished, or `max_step_num` + 1 of them, as in Paddle: outputs and last states.

    Outputs are [batch, steps, …], or [steps, batch, …] with `output_time_major`. With `impute_finished`, finished sequences keep their
    states, for decoders that do not track what is finished themselves. With `return_length` the lengths come third. `is_test`, which saves
    memory in Paddle's static programs, changes nothing. `kwargs` go to `decoder.step`. How many steps there are depends on values, so it
    runs eagerly, not within a traced function.
    """
    if dispatch.active_trace() is not None:
        raise RuntimeError(
            "expected dynamic_decode to run eagerly: how many steps it takes depends on values; call it outside of to_static and static "
            "programs"
        )
    inputs, states, finished = decoder.initialize(inits)
    lengths = zeros_like(finished).astype("int64")
    made: list[Any] = []
    while not bool(all_of(finished)) and (max_step_num is None or len(made) <= max_step_num):
        outputs, after, inputs, now = decoder.step(full([1], len(made), "int64"), inputs, states, **kwargs)
        if not decoder.tracks_own_finished:
            now = logical_or(now, finished)
            lengths = add(lengths, logical_not(now).astype(lengths.dtype))
            if impute_finished:
                after = map_structure(lambda new, old, over=now: _keep(over, new, old), after, states)
        elif hasattr(after, "lengths"):
            lengths = after.lengths
        else:
            warnings.warn("`next_states` has no `lengths` attribute, the returned `sequence_lengths` would be all zeros.", stacklevel=2)
        made.append(outputs)
        states, finished = after, now
    if not made:
        raise ValueError("expected a sequence that is not finished before the first step but all of them are")
    results = map_structure(lambda *parts: stack(parts, axis=0), *made)
    if type(decoder).finalize is not Decoder.finalize:
        results, states = decoder.finalize(results, states, lengths)
    if not output_time_major:
        results = map_structure(lambda x: transpose(x, [1, 0, *range(2, x.ndim)]), results)
    return (results, states, lengths) if return_length else (results, states)


def _keep(over: Tensor, new: Tensor, old: Tensor) -> Tensor:
    """`old` for the sequences that are over, `new` for the others."""
    return where(reshape(over, [*over.shape, *[1] * (new.ndim - over.ndim)]), old, new)
