"""What is not asked of a name, and why: the other names are covered in every aspect (`python -m tests.coverage_api`), which the tests see
to.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

# Of shapes each of these is asked: no elements, an axis of one, an odd size, two shapes that fit each other, and elements that do not lie
# one behind the other.
KINDS = ("empty", "one", "odd", "broadcast", "strided")
ASPECTS = ("dtypes", *KINDS, "gradient")


@dataclass(frozen=True)
class Reason:
    """Of these `names` (without the leading "paddle."), `aspects` are not asked, because of what `text` says; the aspect "shapes" is all
    kinds of them.
    """

    text: str
    aspects: tuple[str, ...]
    names: str

    def each(self) -> Iterator[str]:
        return (f"paddle.{name}" for name in self.names.split())


# A float tensor goes in and none comes out that needs a gradient: the tests compare this with what Paddle gave.
NOTHING_FLOWS = (
    Reason(
        "bools or whole numbers come out",
        ("gradient",),
        "all allclose any argmax argmin equal equal_all greater_equal greater_than histogram int8 is_empty is_tensor isfinite isinf "
        "isnan less_equal less_than logical_and logical_not logical_or logical_xor nn.functional.gather_tree nonzero not_equal numel "
        "rank shape shard_index",
    ),
    Reason(
        "a new tensor is made, of sizes or numbers",
        ("gradient",),
        "arange empty empty_like eye full full_like linspace nn.functional.one_hot nn.initializer.Xavier ones ones_like to_tensor zeros "
        "zeros_like",
    ),
    Reason("numbers are drawn", ("gradient",), "bernoulli multinomial rand randint randn randperm seed uniform"),
    Reason("Paddle has no gradient of it", ("gradient",), "nn.functional.diag_embed unique"),
)

# The tests compare these with what Paddle gave, too: it refuses a case of this kind, and so do we, or `differences.py` says why not.
REFUSED = (
    Reason(
        "Paddle refuses it",
        ("empty",),
        "arange linspace multinomial nn.CTCLoss nn.functional.ctc_loss nn.functional.npair_loss nn.SpectralNorm nn.GRU nn.LSTM"
        " nn.Transformer nn.TransformerDecoder nn.TransformerDecoderLayer nn.TransformerEncoder nn.TransformerEncoderLayer"
        " vision.transforms.RandomResizedCrop vision.transforms.Resize nn.BeamSearchDecoder nn.dynamic_decode summary",
    ),
)

# What gives tensors of different shapes one shape, or one of them that of another. Of other names broadcasting is not asked.
BROADCASTING = (
    "add subtract multiply divide floor_divide mod pow maximum minimum equal not_equal less_than less_equal greater_than greater_equal "
    "logical_and logical_or logical_xor where matmul addmm dist expand_as masked_select Tensor nn.functional.binary_cross_entropy "
    "nn.functional.binary_cross_entropy_with_logits nn.functional.cosine_similarity nn.functional.l1_loss nn.functional.label_smooth "
    "nn.functional.linear nn.functional.margin_ranking_loss nn.functional.mse_loss nn.functional.prelu nn.functional.square_error_cost "
    "nn.CosineSimilarity nn.L1Loss nn.MarginRankingLoss nn.MSELoss nn.PairwiseDistance"
)


REASONS = (
    *NOTHING_FLOWS,
    *REFUSED,
    Reason("Paddle's gradient of it is memory that nobody wrote", ("empty",), "nn.SimpleRNN"),
    Reason(
        "no tensor goes in and none comes out",
        ("dtypes", "shapes", "gradient"),
        "CPUPlace CUDAPinnedPlace CUDAPlace XPUPlace get_cuda_rng_state get_cudnn_version get_device is_compiled_with_cuda "
        "is_compiled_with_xpu set_cuda_rng_state set_device disable_static enable_static in_dynamic_mode batch dataset.flowers.train "
        "nn.Layer.apply nn.Layer.children nn.Layer.eval nn.Layer.extra_repr nn.Layer.full_name nn.Layer.named_children "
        "nn.Layer.named_sublayers nn.Layer.sublayers nn.Layer.train nn.layer.layers.HookRemoveHelper "
        "nn.layer.layers.HookRemoveHelper.remove",
    ),
    Reason("its tensors hold one number each", ("odd", "strided"), "arange increment linspace"),
    Reason(
        "what it makes is contiguous, and what goes in are sizes and numbers",
        ("strided",),
        "eye ones zeros rand randint randn randperm uniform ParamAttr nn.initializer.Constant nn.initializer.Xavier "
        "nn.Layer.create_parameter",
    ),
    Reason("parameters are contiguous", ("strided",), "nn.Layer.add_parameter nn.Layer.named_parameters nn.Layer.parameters"),
    Reason("Paddle's casts only some of what a layer holds", ("empty", "strided"), "nn.Layer.astype"),
    Reason("a number goes in", ("empty", "strided"), "seed"),
    Reason("layers are counted, and no tensor goes in", ("dtypes", "shapes"), "flops"),
    Reason("a dtype goes in or comes out, and no tensor", ("shapes", "gradient"), "get_default_dtype set_default_dtype"),
    Reason("what is made is empty until it is set", ("shapes",), "nn.Layer.create_tensor nn.Layer.create_variable"),
    Reason("on a CPU it changes nothing", ("shapes",), "nn.Layer.float16"),
    Reason("Paddle has no kernel of it for CPUs", ("dtypes", "shapes", "gradient"), "nn.SyncBatchNorm"),
    Reason("Paddle computes it in float32 alone", ("dtypes",), "nn.functional.log_loss vision.transforms.rotate"),
    Reason(
        "values are listed, kept or replaced, which is not recorded",
        ("gradient",),
        "Tensor.numpy Tensor.set_value Tensor.shape Tensor.dtype load save flops summary nn.Layer.state_dict nn.Layer.set_state_dict "
        "nn.Layer.set_dict nn.Layer.load_dict nn.Layer.to_static_state_dict nn.Layer.buffers nn.Layer.named_buffers "
        "nn.Layer.create_tensor nn.Layer.create_variable nn.Layer.astype nn.Layer.bfloat16 nn.Layer.float nn.Layer.float16 nn.Layer.to",
    ),
    Reason(
        "gradients are taken and parameters changed, which is not recorded",
        ("gradient",),
        "nn.ClipGradByGlobalNorm nn.ClipGradByNorm nn.ClipGradByValue optimizer.Adam optimizer.Adam.clear_grad optimizer.Adam.step "
        "optimizer.SGD optimizer.SGD.clear_grad optimizer.SGD.minimize optimizer.SGD.step",
    ),
    Reason("the best are chosen, by number", ("gradient",), "nn.BeamSearchDecoder nn.dynamic_decode"),
)

# Options that no case gives, by name.
OPTIONS = {
    "name": "only names what is made, and is ignored in dynamic mode",
    "pin_memory": "asks for memory that a GPU reads; Paddle refuses it on a CPU, here it is passed over",
    "startup_program": "is of static mode",
    "dump_backward_graph_path": "writes a drawing of Paddle's own nodes",
}


def reasons(aspect: str) -> dict[str, str]:
    """By name, why the aspect is not asked of it."""
    return {
        name: reason.text
        for reason in REASONS
        if aspect in reason.aspects or aspect in KINDS and "shapes" in reason.aspects
        for name in reason.each()
    }


def asked(aspect: str, name: str) -> bool:
    """Whether cases of the name are to cover the aspect."""
    return name in _BROADCASTING if aspect == "broadcast" else name not in _EXEMPT[aspect]


def refused(kind: str) -> set[str]:
    """What Paddle refuses of this kind of shape."""
    return {name for reason in REFUSED if kind in reason.aspects for name in reason.each()}


_BROADCASTING = {f"paddle.{name}" for name in BROADCASTING.split()}
_EXEMPT = {aspect: reasons(aspect) for aspect in ASPECTS}
