"""Functions of `nn.functional` over sizes: no batch, a batch of one, an odd one in tensors that are not contiguous; and what does not fit
together.
"""

from tests.api.sizes import EMPTY, given, over_sizes
from tests.api.table import apart, array, cases, ints, normal, uniform

F = "paddle.nn.functional"


def inside(*shape):
    """Numbers in (0, 1)."""
    return uniform(*shape, low=0.05, high=0.95)


def _pools():
    found = {}
    for d, rest in ((1, (7,)), (2, (5, 7)), (3, (3, 5, 3))):
        for kind in ("avg", "max"):
            found[f"{kind}_pool{d}d"] = lambda n, rest=rest: given(apart(n, 3, *rest), 3, 2, 1)
            found[f"adaptive_{kind}_pool{d}d"] = lambda n, rest=rest: given(apart(n, 3, *rest), 2)
    return found


def _convolutions():
    found = {}
    for d, rest in ((1, (7,)), (2, (5, 7)), (3, (3, 5, 3))):
        kernel = (3,) * d
        found[f"conv{d}d"] = lambda n, rest=rest, kernel=kernel: given(
            normal(n, 3, *rest), normal(5, 3, *kernel), normal(5), stride=2, padding=1
        )
        found[f"conv{d}d_transpose"] = lambda n, rest=rest, kernel=kernel: given(
            normal(n, 3, *rest), normal(3, 5, *kernel), normal(5), stride=2, padding=1
        )
    return found


ACTIVATIONS = (
    "elu", "gelu", "hardshrink", "hardsigmoid", "hardswish", "hardtanh", "leaky_relu", "log_sigmoid", "log_softmax", "relu", "relu6",
    "selu", "sigmoid", "softmax", "softplus", "softshrink", "softsign", "swish", "tanhshrink", "thresholded_relu",
)  # fmt: skip

FORMS = {
    **_pools(),
    **_convolutions(),
    **{name: lambda n: given(normal(n, 5)) for name in ACTIVATIONS},
    "affine_grid": lambda n: given(normal(n, 2, 3), [n, 3, 3, 5]),
    "alpha_dropout": lambda n: given(normal(n, 5), 0.25),
    "batch_norm": lambda n: given(normal(n, 3, 5), normal(3).fixed(), uniform(3, low=0.5).fixed(), normal(3), normal(3), training=True),
    "bilinear": lambda n: given(normal(n, 3), normal(n, 5), normal(7, 3, 5), normal(1, 7)),
    "binary_cross_entropy": lambda n: given(inside(n, 5), inside(n, 5).fixed()),
    "binary_cross_entropy_with_logits": lambda n: given(normal(n, 5), inside(n, 5).fixed()),
    "cosine_similarity": lambda n: given(normal(n, 5), normal(n, 5)),
    "cross_entropy": lambda n: given(normal(n, 5), ints(n)),
    "ctc_loss": lambda n: given(
        normal(5, n, 4), array([[1, 2]] * n, "int32") if n else ints(0, 2, dtype="int32"), ints(n, low=5, high=6), ints(n, low=2, high=3)
    ),
    "diag_embed": lambda n: given(normal(n, 3)),
    "dice_loss": lambda n: given(inside(n, 5), ints(n, 1)),
    "dropout": lambda n: given(normal(n, 5), 0.25),
    "dropout2d": lambda n: given(normal(n, 3, 3, 5), 0.25),
    "dropout3d": lambda n: given(normal(n, 3, 1, 3, 5), 0.25),
    "embedding": lambda n: given(ints(n, 3), normal(5, 3)),
    "gather_tree": lambda n: given(ints(3, n, 5), ints(3, n, 5)),
    "grid_sample": lambda n: given(normal(n, 3, 3, 5), uniform(n, 3, 5, 2, low=-1.4, high=1.4)),
    "hsigmoid_loss": lambda n: given(normal(n, 3), ints(n, 1), 5, normal(4, 3), normal(4, 1)),
    "instance_norm": lambda n: given(normal(n, 3, 5), weight=normal(3), bias=normal(3)),
    "interpolate": lambda n: given(normal(n, 3, 3, 5), [5, 7], mode="bilinear"),
    "kl_div": lambda n: given(normal(n, 5), inside(n, 5).fixed()),
    "l1_loss": lambda n: given(normal(n, 5), normal(n, 5)),
    "label_smooth": lambda n: given(inside(n, 5)),
    "layer_norm": lambda n: given(normal(n, 3, 5), [5], normal(5), normal(5)),
    "linear": lambda n: given(normal(n, 3), normal(3, 5), normal(5)),
    "local_response_norm": lambda n: given(normal(n, 5, 3), 3),
    "log_loss": lambda n: given(inside(n, 1), inside(n, 1).fixed()),
    "margin_ranking_loss": lambda n: given(normal(n, 5), normal(n, 5), array([[1.0, -1.0, 1.0, 1.0, -1.0]]).fixed(), 0.1),
    "maxout": lambda n: given(apart(n, 6, 3, 3), 2),
    "mse_loss": lambda n: given(normal(n, 5), normal(n, 5)),
    "nll_loss": lambda n: given(normal(n, 5), ints(n)),
    "normalize": lambda n: given(normal(n, 5)),
    "npair_loss": lambda n: given(normal(n, 5), normal(n, 5), ints(n)),
    "one_hot": lambda n: given(ints(n, 3), 5),
    "pad": lambda n: given(normal(n, 3, 5), [1, 2], "reflect", data_format="NCL"),
    "pixel_shuffle": lambda n: given(normal(n, 9, 3, 5), 3),
    "prelu": lambda n: given(normal(n, 3, 5), uniform(3)),
    "sigmoid_focal_loss": lambda n: given(normal(n, 5), ints(n, 5, high=2, dtype="float32").fixed()),
    "smooth_l1_loss": lambda n: given(normal(n, 5), normal(n, 5)),
    "softmax_with_cross_entropy": lambda n: given(normal(n, 3), ints(n, 1, high=3)),
    "square_error_cost": lambda n: given(normal(n, 5), normal(n, 5)),
    "temporal_shift": lambda n: given(normal(3 * n, 5, 3, 3), 3, 0.25),
    "unfold": lambda n: given(normal(n, 3, 5, 7), 3, 2, 1),
    "upsample": lambda n: given(normal(n, 3, 3, 5), scale_factor=2),
}

REFUSE_NO_BATCH = ("ctc_loss", "npair_loss")

for name, form in FORMS.items():

    @cases(f"{F}.{name}")
    def _(c, name=name, form=form):
        over_sizes(lambda *args, **kwargs: c(*args, _forms=False, **kwargs), form, refused=(EMPTY,) if name in REFUSE_NO_BATCH else ())

for name in ("elu_", "relu_", "softmax_"):

    @cases(f"{F}.{name}")
    def _(c, name=name):
        over_sizes(lambda x: c.expr(f"F.{name}(x * 1)", x=x), lambda n: given(normal(n, 5)))


# --- two tensors of other shapes: one is repeated, or both are refused

for name in ("mse_loss", "l1_loss", "square_error_cost"):

    @cases(f"{F}.{name}")
    def _(c):
        c(normal(3, 1), normal(5), _forms=False)
        c(normal(), normal(1, 3).strided(), _forms=False)


@cases(f"{F}.cosine_similarity")
def _(c):
    c(normal(3, 1), normal(3, 5), _forms=False)
    c(normal(3, 5), normal(1, 5).strided(), axis=-1, _forms=False)


for name in ("smooth_l1_loss", "binary_cross_entropy", "binary_cross_entropy_with_logits", "kl_div", "sigmoid_focal_loss"):

    @cases(f"{F}.{name}")
    def _(c):
        for label in (inside(3, 1), inside(1, 5), inside(5)):
            c(inside(3, 5), label.fixed(), _raises=True)


@cases(f"{F}.log_loss")
def _(c):
    c(inside(3, 1), inside(1, 1).fixed(), _raises=True)


@cases(f"{F}.nll_loss")
def _(c):
    c(normal(1, 5), ints(3), _raises=True)
    c(normal(3, 0), ints(3), _raises=True)
    c(normal(3, 2), array([0, 1, 2], "int64"), _raises=True)
    c(normal(3, 5), array([-100, -100, -100], "int64"), _forms=False)
    c(normal(3, 5), ints(3), array([0.0] * 5).fixed(), _no_grad=True)


for name in ("cross_entropy", "softmax_with_cross_entropy"):

    @cases(f"{F}.{name}")
    def _(c):
        c(normal(1, 1), ints(3, 1, low=1), _raises=True)
        c(normal(3, 5), inside(1, 5).fixed(), soft_label=True, _raises=True)
        c(normal(), ints(), _raises=True)


@cases(f"{F}.bilinear")
def _(c):
    c(normal(1, 3), normal(3, 5), normal(7, 3, 5), _raises=True)


@cases(f"{F}.prelu")
def _(c):
    c(normal(), uniform(3), _raises=True)
    c(normal(), uniform(1), _forms=False)


@cases(f"{F}.unfold")
def _(c):
    c(normal(3, 5, 7), 3, _raises=True)
