"""Losses of classes that are many, and of what is learned from others; what models of clicks have: columns of what was shown and clicked,
statistics over all data, rows chosen by tags, hashed words.
"""

from __future__ import annotations

from typing import Any

from polyreme.fluid.initializer import Constant
from polyreme.fluid.layer_helper import LayerHelper
from polyreme.fluid.layers.given import made, made_all, takes
from polyreme.fluid.layers.loss import softmax_with_cross_entropy
from polyreme.fluid.layers.nn import one_hot
from polyreme.fluid.param_attr import ParamAttr
from polyreme.names import listed
from polyreme.tensor import Tensor
from polyreme.utils import unique_name

__all__ = [
    "center_loss", "continuous_value_model", "data_norm", "filter_by_instag", "hash", "hsigmoid", "sampled_softmax_with_cross_entropy",
    "teacher_student_sigmoid_loss",
]  # fmt: skip


@takes("input", "label")
def center_loss(input: Any, label: Any, num_classes: int, alpha: Any, param_attr: Any, update_center: bool = True) -> Any:
    """Half the squared distance of each row of `input` [N, size] from the center of its class, [N, 1]. The centers [num_classes, size] are
    no parameters of an optimizer: each run moves them towards their rows by `alpha`, a number or a variable.
    """
    helper = LayerHelper("center_loss")
    centers = helper.create_parameter(param_attr, [num_classes, input.shape[1]], input.dtype)
    centers.stop_gradient = True
    if isinstance(alpha, Tensor):
        rate = alpha
    elif not isinstance(alpha, float):
        raise TypeError(f"expected alpha of center_loss as a float or a Variable but got {type(alpha)}")
    else:
        name = unique_name.generate("centerloss_alpha")
        rate = helper.create_global_variable(persistable=True, name=name, shape=[1], dtype="float32")
        helper.set_variable_initializer(rate, Constant(alpha))
    apart, loss = (helper.create_variable_for_type_inference(input.dtype) for _ in range(2))
    helper.append_op(
        "center_loss", {"X": input, "Label": label, "Centers": centers, "CenterUpdateRate": rate},
        {"SampleCenterDiff": apart, "Loss": loss, "CentersOut": centers},
        {"cluster_num": num_classes, "need_update": update_center},
    )  # fmt: skip
    return loss


@takes("input", "label")
def hsigmoid(
    input: Any, label: Any, num_classes: int, param_attr: Any = None, bias_attr: Any = None, name: str | None = None,
    path_table: Any = None, path_code: Any = None, is_custom: bool = False, is_sparse: bool = False,
) -> Any:  # fmt: skip
    """The loss [N, 1] of the decisions that lead to each label in a tree: the default one is complete; with `is_custom` the ways are
    `path_table` and `path_code` [N, longest], ended by negative numbers.
    """
    if not is_custom and (num_classes is None or num_classes < 2):
        raise ValueError("num_classes must not be less than 2 with default tree")
    if not is_custom and (path_table is not None or path_code is not None):
        raise ValueError("only num_classes should be passed without custom tree")
    for what, value in (("path_code", path_code), ("path_table", path_table), ("num_classes", num_classes)):
        if is_custom and value is None:
            raise ValueError(f"{what} should not be None with custom tree")
    helper = LayerHelper("hierarchical_sigmoid", param_attr=param_attr, bias_attr=bias_attr, name=name)
    decisions = num_classes if is_custom else num_classes - 1
    weight = helper.create_parameter(helper.param_attr, [decisions, input.shape[1]], input.dtype)
    bias = helper.create_parameter(helper.bias_attr, [decisions, 1], input.dtype, is_bias=True)
    out, before = (helper.create_variable_for_type_inference(input.dtype) for _ in range(2))
    slots = {"X": input, "W": weight, "Label": label, "PathTable": path_table, "PathCode": path_code, "Bias": bias}
    attrs = {"num_classes": num_classes, "is_sparse": is_sparse and is_custom, "remote_prefetch": False}
    helper.append_op("hierarchical_sigmoid", slots, {"Out": out, "PreOut": before}, attrs)
    return out


@takes("logits", "label")
def sampled_softmax_with_cross_entropy(
    logits: Any, label: Any, num_samples: int, num_true: int = 1, remove_accidental_hits: bool = True,
    use_customized_samples: bool = False, customized_samples: Any = None, customized_probabilities: Any = None, seed: int = 0,
) -> Any:  # fmt: skip
    """The loss [N, 1] of the softmax over the right class and `num_samples` others, which are drawn, log-uniform, or told. As in Paddle
    the last samples are left out where `num_true` is above 1, and the loss is divided by it.
    """
    outputs = {
        "Samples": "int64", "Probabilities": logits.dtype, "SampledLabels": "int64", "SampledLogits": logits.dtype,
    }  # fmt: skip
    slots = {
        "Logits": logits, "Labels": label, "CustomizedSamples": customized_samples, "CustomizedProbabilities": customized_probabilities,
    }  # fmt: skip
    attrs = {
        "use_customized_samples": use_customized_samples, "uniq": True, "remove_accidental_hits": remove_accidental_hits,
        "num_samples": num_samples, "seed": seed,
    }  # fmt: skip
    *_, places, sampled = made_all("sample_logits", slots, attrs, outputs)
    places.stop_gradient = True
    share = one_hot(places, num_samples + 1)
    share.stop_gradient = True
    return softmax_with_cross_entropy(sampled, share, soft_label=True, numeric_stable_mode=False) / num_true


@takes("input", "label")
def teacher_student_sigmoid_loss(
    input: Any, label: Any, soft_max_up_bound: float = 15.0, soft_max_lower_bound: float = -15.0
) -> Any:
    """The loss of a click plus that of what a teacher says of it, [N, 1]. Labels: -2 no click, -1 a click, and with a teacher's share s no
    click is s, a click 1 + s. No gradient flows where `input` is outside of the bounds.
    """
    attrs = {"soft_max_lower_bound": float(soft_max_lower_bound), "soft_max_up_bound": float(soft_max_up_bound)}
    return made("teacher_student_sigmoid_loss", {"X": input, "Label": label}, attrs, input.dtype, "Y")


# --- models of clicks


@takes("input", "cvm")
def continuous_value_model(input: Any, cvm: Any, use_cvm: bool = True) -> Any:
    """Rows [N, D] whose first two columns say how often something was shown and clicked: these as log(shown + 1) and
    log(clicked + 1) - log(shown + 1), or, without `use_cvm`, the rows without them, [N, D - 2].

    `cvm` [batch, 2] is what was shown and clicked in this batch, for each row or sequence of `input`: it is what the two columns get as
    their gradients.
    """
    return made("cvm", {"X": input, "CVM": cvm}, {"use_cvm": use_cvm}, input.dtype, "Y")


@takes("input")
def data_norm(
    input: Any, act: str | None = None, epsilon: float = 1e-05, param_attr: Any = None, data_layout: str = "NCHW", in_place: bool = False,
    name: str | None = None, moving_mean_name: str | None = None, moving_variance_name: str | None = None,
    do_model_average_for_mean_and_var: bool = True, slot_dim: int = -1, sync_stats: bool = False, summary_decay_rate: float = 0.9999999,
    enable_scale_and_shift: bool = False,
) -> Any:  # fmt: skip
    """(input - sum / count) * sqrt(count / squares) per column of [N, C], by sums over all data, which are parameters called
    `name.batch_size`, `name.batch_sum` and `name.batch_square_sum`. Their gradients are what the batch adds.

    `param_attr` is a dict of their first values, `batch_size`, `batch_sum` and `batch_square`, and with `enable_scale_and_shift` of
    `scale_w` and `bias`, by which the result is multiplied and moved. With `slot_dim` the columns are slots of so many: one whose first
    number is 0 is zeros, and counts in no sum.
    """
    if data_layout not in ("NCHW", "NHWC"):
        raise ValueError(f"unsupported data layout: {data_layout}")
    given = param_attr if isinstance(param_attr, dict) else {}
    helper = LayerHelper("data_norm", act=act, name=name)
    channels, dtype = [input.shape[1 if data_layout == "NCHW" else -1]], input.dtype

    def statistic(key: str, called: str, default: float) -> Any:
        attr = ParamAttr(f"{'dn' if name is None else name}.{called}", Constant(float(given.get(key, default))))
        return helper.create_parameter(attr, channels, dtype)

    slots = {"X": input}
    if enable_scale_and_shift:
        slots.update(scale_w=statistic("scale_w", "scale_w", 1.0), bias=statistic("bias", "bias", 0.0))
    slots.update(
        BatchSize=statistic("batch_size", "batch_size", 1e4), BatchSum=statistic("batch_sum", "batch_sum", 0.0),
        BatchSquareSum=statistic("batch_square", "batch_square_sum", 1e4),
    )  # fmt: skip
    means, scales = (helper.create_variable_for_type_inference(dtype, stop_gradient=True) for _ in range(2))
    out = input if in_place else helper.create_variable_for_type_inference(dtype)
    attrs = {
        "epsilon": epsilon, "sync_stats": sync_stats, "summary_decay_rate": summary_decay_rate,
        "slot_dim": slot_dim if slot_dim > 0 else None, "enable_scale_and_shift": enable_scale_and_shift or None,
    }  # fmt: skip
    helper.append_op("data_norm", slots, {"Y": out, "Means": means, "Scales": scales}, attrs)
    return helper.append_activation(out)


@takes("ins", "ins_tag", "filter_tag")
def filter_by_instag(ins: Any, ins_tag: Any, filter_tag: Any, is_lod: bool, out_val_if_empty: int = 0) -> list[Any]:
    """The instances of `ins` [N, D], its sequences with `is_lod` and else its rows, one of whose tags is in `filter_tag` [tags], and a
    weight of 1 for each, [kept, 1]. The tags of an instance are a sequence of `ins_tag`. Where none is kept there is one row of
    `out_val_if_empty`, with the weight 0.
    """
    outputs = {"Out": ins.dtype, "LossWeight": "float32", "IndexMap": ins_tag.dtype}
    attrs = {"is_lod": is_lod, "out_val_if_empty": out_val_if_empty}
    kept, weight, _ = made_all("filter_by_instag", {"Ins": ins, "Ins_tag": ins_tag, "Filter_tag": filter_tag}, attrs, outputs)
    return [kept, weight]


@takes("input")
def hash(input: Any, hash_size: int, num_hash: int = 1, name: str | None = None) -> Any:
    """XXH64 of each row of `input` [N, D], int32 or int64, by `num_hash` seeds from 0 on, modulo `hash_size`: [N, num_hash, 1]."""
    for what, value in (("hash_size", hash_size), ("num_hash", num_hash)):
        if not isinstance(value, int):
            raise TypeError(f"The type of '{what}' in hash must be int, but received {type(value)} ({value!r}).")
    return made("hash", {"X": input}, {"num_hash": num_hash, "mod_by": hash_size}, input.dtype, name=name, fixed=True)


__dir__ = listed(__name__)
