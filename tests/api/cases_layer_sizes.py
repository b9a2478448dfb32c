"""Layers (but recurrent ones, of whose batches of none Paddle refuses most) over sizes: no batch, a batch of one, an odd one in tensors
that are not contiguous.
"""

from tests.api.sizes import EMPTY, given, over_sizes
from tests.api.table import apart, array, cases, ints, normal, of, uniform

NN = "paddle.nn"


def inside(*shape):
    """Numbers in (0, 1)."""
    return uniform(*shape, low=0.05, high=0.95)


ACTIVATIONS = (
    "ELU", "GELU", "Hardshrink", "Hardsigmoid", "Hardswish", "Hardtanh", "LeakyReLU", "LogSigmoid", "LogSoftmax", "ReLU", "ReLU6", "SELU",
    "Sigmoid", "Softmax", "Softplus", "Softshrink", "Softsign", "Swish", "Tanh", "Tanhshrink", "ThresholdedReLU",
)  # fmt: skip


def _of_dimensions():
    found = {}
    for d, rest in ((1, (7,)), (2, (5, 7)), (3, (3, 5, 3))):
        for kind in ("Avg", "Max"):
            found[f"{kind}Pool{d}D"] = given(3, 2, 1), lambda n, rest=rest: given(apart(n, 3, *rest))
            found[f"Adaptive{kind}Pool{d}D"] = given(2), lambda n, rest=rest: given(apart(n, 3, *rest))
        for kind in ("Conv{}D", "Conv{}DTranspose"):
            found[kind.format(d)] = given(3, 5, 3, 2, 1), lambda n, rest=rest: given(normal(n, 3, *rest))
        for kind in ("BatchNorm{}D", "InstanceNorm{}D"):
            found[kind.format(d)] = given(3), lambda n, rest=rest: given(normal(n, 3, *rest))
        found[f"Pad{d}D"] = given(1, "reflect"), lambda n, rest=rest: given(normal(n, 3, *rest))
    return found


# By name, what the layer is made with, and what goes in.
FORMS = {
    **_of_dimensions(),
    **{name: (given(), lambda n: given(normal(n, 5))) for name in ACTIVATIONS},
    "AlphaDropout": (given(0.25), lambda n: given(normal(n, 5))),
    "BatchNorm": (given(3), lambda n: given(normal(n, 3, 5))),
    "BCELoss": (given(), lambda n: given(inside(n, 5), inside(n, 5).fixed())),
    "BCEWithLogitsLoss": (given(), lambda n: given(normal(n, 5), inside(n, 5).fixed())),
    "Bilinear": (given(3, 5, 7), lambda n: given(normal(n, 3), normal(n, 5))),
    "CosineSimilarity": (given(), lambda n: given(normal(n, 5), normal(n, 5))),
    "CrossEntropyLoss": (given(), lambda n: given(normal(n, 5), ints(n))),
    "CTCLoss": (
        given(),
        lambda n: given(
            normal(5, n, 4),
            array([[1, 2]] * n, "int32") if n else ints(0, 2, dtype="int32"),
            ints(n, low=5, high=6),
            ints(n, low=2, high=3),
        ),
    ),
    "Dropout": (given(0.25), lambda n: given(normal(n, 5))),
    "Dropout2D": (given(0.25), lambda n: given(normal(n, 3, 3, 5))),
    "Dropout3D": (given(0.25), lambda n: given(normal(n, 3, 1, 3, 5))),
    "Embedding": (given(5, 3), lambda n: given(ints(n, 3))),
    "Flatten": (given(), lambda n: given(normal(n, 3, 5))),
    "GroupNorm": (given(3, 9), lambda n: given(normal(n, 9, 5))),
    "HSigmoidLoss": (given(3, 5), lambda n: given(normal(n, 3), ints(n, 1))),
    "KLDivLoss": (given(), lambda n: given(normal(n, 5), inside(n, 5).fixed())),
    "L1Loss": (given(), lambda n: given(normal(n, 5), normal(n, 5))),
    "LayerNorm": (given(5), lambda n: given(normal(n, 3, 5))),
    "Linear": (given(3, 5), lambda n: given(normal(n, 3))),
    "LocalResponseNorm": (given(3), lambda n: given(normal(n, 5, 3))),
    "MarginRankingLoss": (given(0.1), lambda n: given(normal(n, 5), normal(n, 5), array([[1.0, -1.0, 1.0, 1.0, -1.0]]).fixed())),
    "Maxout": (given(2), lambda n: given(apart(n, 6, 3, 3))),
    "MSELoss": (given(), lambda n: given(normal(n, 5), normal(n, 5))),
    "MultiHeadAttention": (given(6, 2), lambda n: given(normal(n, 3, 6))),
    "NLLLoss": (given(), lambda n: given(normal(n, 5), ints(n))),
    "PairwiseDistance": (given(), lambda n: given(normal(n, 5), normal(n, 5))),
    "PixelShuffle": (given(3), lambda n: given(normal(n, 9, 3, 5))),
    "PReLU": (given(3), lambda n: given(normal(n, 3, 5))),
    "Sequential": (given(of("paddle.nn.Linear(3, 5)"), of("paddle.nn.ReLU()")), lambda n: given(normal(n, 3))),
    "SmoothL1Loss": (given(), lambda n: given(normal(n, 5), normal(n, 5))),
    "Transformer": (given(4, 2, 1, 1, 5, 0.0), lambda n: given(normal(n, 3, 4), normal(n, 5, 4))),
    "TransformerDecoder": (
        given(of("paddle.nn.TransformerDecoderLayer(4, 2, 5, 0.0)"), 1),
        lambda n: given(normal(n, 3, 4), normal(n, 5, 4)),
    ),
    "TransformerDecoderLayer": (given(4, 2, 5, 0.0), lambda n: given(normal(n, 3, 4), normal(n, 5, 4))),
    "TransformerEncoder": (given(of("paddle.nn.TransformerEncoderLayer(4, 2, 5, 0.0)"), 1), lambda n: given(normal(n, 3, 4))),
    "TransformerEncoderLayer": (given(4, 2, 5, 0.0), lambda n: given(normal(n, 3, 4))),
    "Upsample": (given([5, 7], mode="bilinear"), lambda n: given(normal(n, 3, 3, 5))),
    "UpsamplingBilinear2D": (given([5, 7]), lambda n: given(normal(n, 3, 3, 5))),
    "UpsamplingNearest2D": (given([5, 7]), lambda n: given(normal(n, 3, 3, 5))),
}

REFUSE_NO_BATCH = (
    "CTCLoss",
    "Transformer",
    "TransformerDecoder",
    "TransformerDecoderLayer",
    "TransformerEncoder",
    "TransformerEncoderLayer",
)

for name, (made, inputs) in FORMS.items():

    @cases(f"{NN}.{name}")
    def _(c, name=name, made=made, inputs=inputs):
        over_sizes(
            lambda *args, **kwargs: c.layer(*made.args, **made.kwargs)(*args, **kwargs),
            inputs,
            refused=(EMPTY,) if name in REFUSE_NO_BATCH else (),
        )
