"""Labels of sequences: conditional random fields, the chunks that labels spell, alignments, and distances."""

from __future__ import annotations

from typing import Any

from polyreme.fluid.layer_helper import LayerHelper
from polyreme.fluid.layers.given import takes
from polyreme.fluid.layers.nn import squeeze, topk
from polyreme.names import listed

__all__ = ["chunk_eval", "crf_decoding", "ctc_greedy_decoder", "edit_distance", "linear_chain_crf", "warpctc"]


@takes("input", "label")
def linear_chain_crf(input: Any, label: Any, param_attr: Any = None, length: Any = None) -> Any:
    """-log of how probable labels are in a conditional random field, [sequences, 1].

    `input` are emissions, sequences of rows [rows, labels], and `label` int64 [rows, 1]; or [batch, steps, labels] and [batch, steps, 1]
    with the lengths [batch, 1], int64. The parameter is a transition [labels + 2, labels]: the weights of the first label, of the last,
    and of each label (row) before each other one (column).
    """
    helper = LayerHelper("linear_chain_crf", param_attr=param_attr)
    count = input.shape[1 if length is None else 2]
    transition = helper.create_parameter(helper.param_attr, [count + 2, count], input.dtype)
    alpha, of_emission, of_transition, cost = (helper.create_variable_for_type_inference(input.dtype) for _ in range(4))
    slots = {"Emission": input, "Transition": transition, "Label": label, "Length": length}
    outputs = {"Alpha": alpha, "EmissionExps": of_emission, "TransitionExps": of_transition, "LogLikelihood": cost}
    helper.append_op("linear_chain_crf", slots, outputs)
    return cost


@takes("input")
def crf_decoding(input: Any, param_attr: Any, label: Any = None, length: Any = None) -> Any:
    """The best labels for emissions, int64 [rows, 1], or [batch, steps] where lengths are given; with `label` whether each is the best.

    `param_attr` names the transition that `linear_chain_crf` made.
    """
    helper = LayerHelper("crf_decoding", param_attr=param_attr)
    path = helper.create_variable_for_type_inference("int64", stop_gradient=True)
    slots = {"Emission": input, "Transition": helper.get_parameter(helper.param_attr.name), "Label": label, "Length": length}
    helper.append_op("crf_decoding", slots, {"ViterbiPath": path})
    return path


@takes("input", "label")
def chunk_eval(
    input: Any, label: Any, chunk_scheme: str, num_chunk_types: int, excluded_chunk_types: Any = None, seq_length: Any = None
) -> tuple[Any, Any, Any, Any, Any, Any]:
    """Precision, recall and F1 of the chunks that labels spell beside those of `label`, float32 [1], and how many were found, how many
    there are and how many are right, int64 [1].

    Label `type * tags + tag` is a part of a chunk of that type, as the scheme says: "IOB" has the tags begin and inside, "IOE" inside and
    end, "IOBES" begin, inside, end and single, "plain" one. The label behind the last one is no part of any. Labels are sequences
    [rows, 1], or [batch, steps] with `seq_length` [batch], int64.
    """
    helper = LayerHelper("chunk_eval")
    shares = [helper.create_variable_for_type_inference("float32") for _ in range(3)]
    counts = [helper.create_variable_for_type_inference("int64") for _ in range(3)]
    slots = ("Precision", "Recall", "F1-Score", "NumInferChunks", "NumLabelChunks", "NumCorrectChunks")
    attrs = {"num_chunk_types": num_chunk_types, "chunk_scheme": chunk_scheme, "excluded_chunk_types": excluded_chunk_types or []}
    outputs = dict(zip(slots, (*shares, *counts), strict=True))
    helper.append_op("chunk_eval", {"Inference": input, "Label": label, "SeqLength": seq_length}, outputs, attrs)
    return shares[0], shares[1], shares[2], counts[0], counts[1], counts[2]


@takes("input", "label")
def warpctc(
    input: Any, label: Any, blank: int = 0, norm_by_times: bool = False, input_length: Any = None, label_length: Any = None
) -> Any:
    """-log of how probable labels are, summed over their alignments with the steps, [sequences, 1].

    `input` are scores, sequences [rows, classes], and `label` sequences [rows, 1], int32; or [steps, batch, classes] and [batch, most
    labels] with their lengths, int64 [batch].
    """
    helper = LayerHelper("warpctc")
    gradient, loss = (helper.create_variable_for_type_inference(input.dtype) for _ in range(2))
    slots = {"Logits": input, "Label": label}
    if input_length is not None and label_length is not None:
        slots |= {"LogitsLength": input_length, "LabelLength": label_length}
    attrs = {"blank": blank, "norm_by_times": norm_by_times}
    helper.append_op("warpctc", slots, {"WarpCTCGrad": gradient, "Loss": loss}, attrs)
    return loss


@takes("input")
def ctc_greedy_decoder(input: Any, blank: int, input_length: Any = None, padding_value: int = 0, name: str | None = None) -> Any:
    """The best label of each step, repeated ones once, without blanks: sequences [rows, 1] of sequences [rows, classes]; or rows
    [batch, steps], filled up with `padding_value`, and how many labels they have, int64 [batch, 1], of [batch, steps, classes] with their
    lengths. Sequences without any label give one row of -1.
    """
    helper = LayerHelper("ctc_greedy_decoder", name=name)
    _, best = topk(input, k=1)
    out = helper.create_variable_for_type_inference("int64", stop_gradient=True)
    if input_length is None:
        helper.append_op("ctc_align", {"Input": best}, {"Output": out}, {"merge_repeated": True, "blank": blank})
        return out
    count = helper.create_variable_for_type_inference("int64", stop_gradient=True)
    attrs = {"merge_repeated": True, "blank": blank, "padding_value": padding_value}
    slots = {"Input": squeeze(best, [2]), "InputLength": input_length}
    helper.append_op("ctc_align", slots, {"Output": out, "OutputLength": count}, attrs)
    return out, count


@takes("input", "label")
def edit_distance(
    input: Any, label: Any, normalized: bool = True, ignored_tokens: Any = None, input_length: Any = None, label_length: Any = None
) -> tuple[Any, Any]:
    """How many tokens have to be put in, left out or replaced to make each sequence of `input` that of `label`, float32 [sequences, 1], as
    a share of the tokens of `label` where it is `normalized`; and how many sequences there are, int64 [1].

    Both are sequences of int64 [rows, 1], or [batch, most tokens] with their lengths, int64 [batch]. Tokens that are ignored are taken out
    first.
    """
    helper = LayerHelper("edit_distance")
    if ignored_tokens:
        without = [helper.create_variable_for_type_inference("int64", stop_gradient=True) for _ in range(2)]
        for given, out in zip((input, label), without, strict=True):
            helper.append_op("sequence_erase", {"X": given}, {"Out": out}, {"tokens": list(ignored_tokens)})
        input, label = without
    slots = {"Hyps": input, "Refs": label}
    if input_length is not None and label_length is not None:
        slots |= {"HypsLength": input_length, "RefsLength": label_length}
    out, count = (helper.create_variable_for_type_inference("int64", stop_gradient=True) for _ in range(2))
    helper.append_op("edit_distance", slots, {"Out": out, "SequenceNum": count}, {"normalized": normalized})
    return out, count


__dir__ = listed(__name__)
