"""Losses of margins, of several labels and of a normal distribution; zeros around sequences and volumes; softmax of images."""

from tests.api.table import FLOATS, array, cases, ints, normal, of, uniform

F = "paddle.nn.functional"
REDUCTIONS = ("mean", "sum", "none")


def label(*shape, dtype="float32"):
    return ints(*shape, high=2, dtype=dtype)


@cases(f"{F}.multi_label_soft_margin_loss")
def _(c):
    for dtype in FLOATS:
        for reduction in REDUCTIONS:
            c(normal(3, 4, dtype=dtype), label(3, 4, dtype=dtype), uniform(4, dtype=dtype), reduction)
    c(normal(3, 5).strided(), label(3, 5).fixed())
    c(normal(5), label(5).fixed(), reduction="none")
    c(normal(2, 1, 3), label(2, 1, 3), reduction="none")
    c(array([[100.0, -100.0]]), array([[0.0, 1.0]]).fixed())
    c(normal(3, 4), label(2, 4), _raises=True)
    c(normal(3, 4), label(3, 4), reduction="average", _raises=True)


@cases(f"{F}.multi_margin_loss")
def _(c):
    for dtype in FLOATS:
        for p in (1, 2):
            for reduction in REDUCTIONS:
                c(normal(3, 4, dtype=dtype), ints(3, high=4), p, 0.75, reduction=reduction)
                c(normal(3, 4, dtype=dtype), ints(3, high=4), p, 1.5, uniform(4, dtype=dtype), reduction)
    c(normal(3, 5).strided(), ints(3, dtype="int32"))
    c(normal(1, 5), ints(1, 1), 3)
    c(normal(3, 5), ints(2), _raises=True)
    c(normal(3, 5), ints(3), weight=uniform(4), _raises=True)
    c(normal(2, 5), array([5, 0], "int64"), _raises=True)
    c(normal(2, 5), array([-1, 0], "int64"), _raises=True)
    c(normal(3, 5), ints(3), reduction="average", _raises=True)


@cases(f"{F}.gaussian_nll_loss")
def _(c):
    for dtype in FLOATS:
        for reduction in REDUCTIONS:
            c(normal(3, 4, dtype=dtype), normal(3, 4, dtype=dtype), uniform(3, 4, low=0.1, high=2, dtype=dtype), reduction=reduction)
    c(normal(3, 4), normal(3, 4), uniform(3, low=0.1, high=2), True)
    c(normal(3, 5).strided(), normal(3, 5), uniform(3, 1, low=0.1, high=2), epsilon=0.5)
    c(normal(1), normal(1), uniform(1))
    c(normal(3, 4), normal(3, 4), uniform(4), _raises=True)
    c(normal(2), normal(2), array([-1.0, 1.0]), _raises=True)
    c(normal(2), normal(2), uniform(2), reduction="average", _raises=True)


@cases(f"{F}.triplet_margin_with_distance_loss")
def _(c):
    for dtype in FLOATS:
        for reduction in REDUCTIONS:
            c(normal(3, 4, dtype=dtype), normal(3, 4, dtype=dtype), normal(3, 4, dtype=dtype), margin=0.5, reduction=reduction)
    c(normal(3, 4), normal(3, 4), normal(3, 4), swap=True)
    c(normal(3, 5).strided(), normal(3, 5), normal(3, 5))
    c(normal(3, 4), normal(3, 4), normal(3, 4), of("lambda a, b: (a - b).abs().sum(-1)"), 2.0, True)
    c(normal(3, 4), normal(3, 4), normal(3, 4), of("lambda a, b: (a - b).sum(-1) - 100.0"), _raises=True)
    c(normal(3, 4), normal(3, 4), normal(2, 4), _raises=True)
    c(normal(3, 4), normal(3, 4), normal(3, 4), margin=-1.0, _raises=True)
    c(normal(3, 4), normal(3, 4), normal(3, 4), reduction="average", _raises=True)


@cases("paddle.nn.MultiLabelSoftMarginLoss")
def _(c):
    c.layer()(normal(3, 4), label(3, 4))
    c.layer(of("paddle.to_tensor([0.5, 1.0, 2.0])"), "sum")(normal(2, 3), label(2, 3))


@cases("paddle.nn.MultiMarginLoss")
def _(c):
    c.layer()(normal(3, 5), ints(3))
    c.layer(2, 0.5, of("paddle.to_tensor([0.5, 1.0, 2.0])"), "none")(normal(2, 3), ints(2, high=3))


@cases("paddle.nn.GaussianNLLLoss")
def _(c):
    c.layer()(normal(3, 4), normal(3, 4), uniform(3, 4))
    c.layer(True, 0.5, "none")(normal(3, 4), normal(3, 4), uniform(3, 1))


@cases("paddle.nn.TripletMarginWithDistanceLoss")
def _(c):
    c.layer()(normal(3, 4), normal(3, 4), normal(3, 4))
    c.layer(of("lambda a, b: (a - b).abs().sum(-1)"), 2.0, True, "none")(normal(3, 4), normal(3, 4), normal(3, 4))


@cases("paddle.nn.ZeroPad1D")
def _(c):
    c.layer(1)(normal(2, 3, 5))
    c.layer([0, 2], data_format="NLC")(normal(1, 3, 4, dtype="float64"))
    c.layer([-1, 2])(normal(1, 2, 4).strided())


@cases("paddle.nn.ZeroPad3D")
def _(c):
    c.layer(1)(normal(1, 2, 3, 3, 2))
    c.layer([1, 0, 2, 0, 0, 1], "NDHWC")(normal(1, 2, 2, 3, 2, dtype="float64"))


@cases("paddle.nn.Softmax2D")
def _(c):
    c.layer()(normal(2, 3, 4, 5))
    c.layer("a name")(normal(3, 1, 2, dtype="float64"))
    c.expr("paddle.nn.Softmax2D()(x)", x=normal(3, 4), _raises=True)
