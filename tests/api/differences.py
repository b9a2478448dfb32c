"""Where we differ from Paddle 3.3.1 on purpose; docs/differences.md says the same in a table."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Difference:
    """The cases whose id starts with `case` differ at `places` (what their complaints start with; all of them when there is none), because
    of `reason`.
    """

    case: str
    reason: str
    places: tuple[str, ...] = ()


ON_PURPOSE = (
    Difference(
        "paddle.sqrt(float32 [0.0,",
        "the square root of infinity is infinity; Paddle gives nan where it takes eight numbers at a time",
        ("result",),
    ),
    Difference("paddle.scale(f32[3], f32[1], 1.0)", "a scale that is a tensor has a gradient; in Paddle it has none", ("grad",)),
    Difference("paddle.prod(float32 [", "the gradient of a product with a factor of 0 is finite; Paddle divides by that factor", ("grad",)),
    Difference(
        "paddle.argmax(float32 [1.0, nan",
        "nan counts as the largest number, as in numpy; in Paddle the answer depends on where it stands",
        ("result",),
    ),
    Difference(
        "paddle.argmin(float32 [1.0, nan",
        "nan counts as the smallest number, as in numpy; in Paddle the answer depends on where it stands",
        ("result",),
    ),
    Difference(
        "paddle.nn.functional.log_softmax(float32 [[10000.0",
        "logarithms of probabilities are exact; Paddle cuts them off at -64",
        ("result",),
    ),
    Difference(
        "paddle.nn.TripletMarginWithDistanceLoss(lambda",
        "the distance function that the layer is made with is used; Paddle keeps it, and takes the Euclidean distance",
    ),
    Difference("paddle.nn.functional.cross_entropy(float32 [[1000.0", "losses are exact; Paddle cuts them off at 64", ("result",)),
    Difference(
        "paddle.nn.functional.softmax_with_cross_entropy(float32 [[1000.0",
        "losses are exact; Paddle cuts them off at 64",
        ("result",),
    ),
    Difference(
        "paddle.nn.functional.softmax_with_cross_entropy(f32[3,5], i64[3,1]in(0,5), return_softmax=True)",
        "the softmax that is returned has a gradient, too; in Paddle it has none", ("grad",),
    ),
    *(
        Difference(case, "weight and bias have gradients, each without the other; in Paddle only both together have", ("grad.first[1]",))
        for case in (
            "paddle.nn.functional.batch_norm(f32[4,3,5], f32[3].fixed, f32[3]in(0.3,2).fixed, f32[3])",
            "paddle.nn.functional.batch_norm(f32[4,3,5], f32[3].fixed, f32[3]in(0.3,2).fixed, None, f32[3]",
            "paddle.nn.functional.instance_norm(f32[2,3,5], weight=f32[3])", "paddle.nn.functional.instance_norm(f32[2,3,5], bias=f32[3])",
            "paddle.nn.BatchNorm1D(3, weight_attr=False)", "paddle.nn.BatchNorm2D(3, use_global_stats=False, bias_attr=False)",
        )
    ),
    *(
        Difference(
            case,
            "the gradient is that of the formula, as differences show; without a weight Paddle gives other numbers",
            ("grad.first[0]",),
        )
        for case in (
            "paddle.nn.functional.group_norm(f32[2,6,5], 1)", "paddle.nn.functional.group_norm(f32[2,6,5], 2)",
            "paddle.nn.functional.group_norm(f32[2,6,5], 6)",
            "paddle.nn.functional.group_norm(f32[2,6,5], 2, bias=",
            "paddle.nn.functional.group_norm: F.group_norm(input=x, num_groups=2, eps=0.1)",
            "paddle.nn.functional.group_norm(f32[2,6,5].strided, 2)", "paddle.nn.GroupNorm(1, 4, affine=False)",
            "paddle.nn.GroupNorm(2, 4, weight_attr=False)",
        )
    ),
    *(
        Difference(
            f"paddle.acosh({case}",
            "the gradient is that of the principal value; in Paddle its sign is wrong left of the imaginary axis",
            ("grad.first[0]",),
        )
        for case in ("c64", "c128", "complex128")
    ),
    *(
        Difference(
            f"paddle.sign({case}",
            "the gradient of a complex sign is that of x over its absolute value, as `sgn` has it; in Paddle it is 0",
            ("grad.first[0]",),
        )
        for case in ("c64", "c128", "complex128")
    ),
    *(
        Difference(
            f"paddle.pow({case}",
            "the gradients of complex powers are conjugated, as those of products are; in Paddle they are not",
            ("grad.first[",),
        )
        for case in ("c64", "c128")
    ),
    Difference(
        "paddle.nn.SpectralNorm([",
        "the gradient is that of the formula, as differences show; Paddle gives other numbers unless all gradients that come in are equal",
        ("grad.first[0]",),
    ),
    Difference("paddle.nn.functional.diag_embed(", "it has a gradient; in Paddle it has none", ("grad", "result: expected stop_gradient")),
    Difference(
        "paddle.nn.Dropout(",
        "prints without `inplace`, as the documentation of Layer shows it; 3.3.1 adds `inplace=False`",
        ("repr",),
    ),
    Difference(
        "paddle.nn.Transformer",
        "prints without `inplace`, as the documentation of Layer shows it; 3.3.1 adds `inplace=False`",
        ("repr",),
    ),
    *(
        Difference(
            f"paddle.nn.{name}(3, 4, 2, direction='bidirect')(",
            "the gradient of a reversed layer with lengths and first states is that of the formula, as differences show; "
            "Paddle takes zeros for first states",
            ("grad",),
        )
        for name in ("SimpleRNN", "LSTM", "GRU")
    ),
    *(
        Difference(
            f"paddle.nn.{name}(3, 2, weight_ih_attr=paddle.nn.initializer.Constant(0.1))(f32[0",
            "a batch of 0 runs; Paddle refuses it",
            ("result",),
        )
        for name in ("LSTM", "GRU")
    ),
    Difference(
        "paddle.nn.BeamSearchDecoder: paddle.nn.dynamic_decode(",
        "no beams to search are a ValueError; in Paddle an AttributeError of its own code",
        ("result",),
    ),
)  # fmt: skip

# Names whose parameters are not Paddle's, with the reason.
SIGNATURES: dict[str, str] = {
    "paddle.randint": "the default of `shape` is `(1,)`, which nobody can change; Paddle's is `[1]`",
    "paddle.dtype": "dtypes are made by nobody but the framework; Paddle's class is an enumeration and takes a number",
    "paddle.CUDAPlace": "the number of the device is called `id`, and 0 unless given",
    "paddle.XPUPlace": "the number of the device is called `id`, and 0 unless given",
}


def unexplained(case: str, complaints: list[str]) -> list[str]:
    """The complaints about a case that are not on purpose."""
    for difference in ON_PURPOSE:
        if case.startswith(difference.case):
            return [c for c in complaints if difference.places and not c.startswith(difference.places)]
    return complaints
