"""Losses: functions and layers."""

from tests.api.table import FLOATS, array, cases, ints, normal, of, uniform

F = "paddle.nn.functional"
SOFT = [[0.1, 0.2, 0.3, 0.4, 0.0], [1.0, 0.0, 0.0, 0.0, 0.0], [0.2, 0.2, 0.2, 0.2, 0.2]]
REDUCTIONS = ("mean", "sum", "none")


def pair(name, layer, left, right, **options):
    """A loss of an input and a label of equal shapes."""

    target = (lambda *shape, dtype="float32": right(*shape, dtype=dtype).fixed()) if name == "kl_div" else right

    @cases(f"{F}.{name}")
    def _(c):
        for dtype in FLOATS:
            for reduction in REDUCTIONS:
                c(left(3, 4, dtype=dtype), target(3, 4, dtype=dtype), reduction=reduction)
        c(left(0, 3), target(0, 3), reduction="none")
        c(left(1), target(1))
        c(left(3, 5).strided(), target(3, 5).strided())
        if name != "kl_div":  # which takes any text for "none"
            c(left(2, 3), right(2, 3), reduction="average", _raises=True)
        for more in options.values():
            c(left(3, 4), target(3, 4), **more)

    @cases(f"paddle.nn.{layer}")
    def _(c):
        for reduction in REDUCTIONS:
            c.layer(reduction=reduction)(left(3, 4), target(3, 4))
        c.layer()(left(2, 3, dtype="float64"), target(2, 3, dtype="float64"))


def label(*shape, dtype="float32"):
    return ints(*shape, high=2, dtype=dtype).fixed()


def fixed_normal(*shape, dtype="float32"):
    return normal(*shape, dtype=dtype)


def probabilities(*shape, dtype="float32"):
    return uniform(*shape, low=0.05, high=0.95, dtype=dtype)


pair("mse_loss", "MSELoss", normal, normal)
pair("l1_loss", "L1Loss", normal, normal)
pair("smooth_l1_loss", "SmoothL1Loss", normal, normal, delta={"delta": 0.3}, wide={"delta": 2.0, "reduction": "sum"})
pair("kl_div", "KLDivLoss", normal, probabilities, batch={"reduction": "batchmean"}, log={"log_target": True, "reduction": "none"})
pair("binary_cross_entropy", "BCELoss", probabilities, label)
pair("binary_cross_entropy_with_logits", "BCEWithLogitsLoss", normal, label)


@cases(f"{F}.binary_cross_entropy")
def _(c):
    c(probabilities(3, 4), label(3, 4), uniform(3, 4).fixed())
    c(probabilities(3, 4), label(3, 4), uniform(4).fixed(), "sum")
    c(array([0.0, 1.0, 0.0, 1.0]), array([0.0, 1.0, 1.0, 0.0]), reduction="none", _no_grad=True)


@cases(f"{F}.binary_cross_entropy_with_logits")
def _(c):
    c(normal(3, 4), label(3, 4), uniform(3, 4).fixed(), "mean", uniform(4, low=1, high=2).fixed())
    c(normal(3, 4), label(3, 4), None, "sum", uniform(4, low=1, high=2).fixed())
    c(array([100.0, -100.0]), array([0.0, 1.0]).fixed(), reduction="none")


@cases("paddle.nn.BCEWithLogitsLoss", "paddle.nn.BCELoss")
def _(c):
    c.layer(weight=of("paddle.to_tensor([0.5, 1.0, 2.0])"))(normal(2, 3), label(2, 3))
    c.layer(pos_weight=of("paddle.to_tensor([0.5, 1.0, 2.0])"), reduction="sum")(normal(2, 3), label(2, 3))


@cases(f"{F}.square_error_cost")
def _(c):
    for dtype in FLOATS:
        c(normal(3, 4, dtype=dtype), normal(3, 4, dtype=dtype))
    c(normal(1), normal(1))
    c(normal(3, 5).strided(), normal(3, 5))


@cases(f"{F}.log_loss")
def _(c):
    c(probabilities(4, 1), label(4, 1))
    c(probabilities(4, 1), label(4, 1), 0.01)
    c(probabilities(1, 1), label(1, 1))
    c(probabilities(3, 1, dtype="float64"), label(3, 1, dtype="float64"))
    c(probabilities(5, 1).strided(), label(5, 1))


@cases(f"{F}.sigmoid_focal_loss")
def _(c):
    for dtype in FLOATS:
        c(normal(3, 4, dtype=dtype), label(3, 4, dtype=dtype))
    c(normal(3, 4), label(3, 4), reduction="none", alpha=0.6, gamma=1.5)
    c(normal(3, 4), label(3, 4), array([2.0]).fixed(), reduction="mean")
    c(normal(3, 5).strided(), label(3, 5))


@cases(f"{F}.margin_ranking_loss")
def _(c):
    signs = array([[1.0, -1.0, 1.0], [-1.0, -1.0, 1.0]]).fixed()
    for reduction in REDUCTIONS:
        c(normal(2, 3), normal(2, 3), signs, 0.1, reduction)
    c(normal(2, 3, dtype="float64"), normal(2, 3, dtype="float64"), array([[1.0, -1.0, 1.0]], "float64").fixed())
    c(normal(2, 3), normal(2, 3), signs, reduction="no", _raises=True)


@cases("paddle.nn.MarginRankingLoss")
def _(c):
    c.layer()(normal(3, 1, dtype="float64"), normal(3, 1, dtype="float64"), array([[1.0], [-1.0], [1.0]], "float64").fixed())
    for reduction in REDUCTIONS:
        c.layer(0.2, reduction)(normal(2, 3), normal(2, 3), array([[1.0, -1.0, 1.0], [-1.0, -1.0, 1.0]]).fixed())


@cases(f"{F}.cosine_similarity", "paddle.nn.CosineSimilarity")
def _(c):
    for dtype in FLOATS:
        c(normal(3, 4, dtype=dtype), normal(3, 4, dtype=dtype))
    c(normal(3, 4), normal(3, 4), 0)
    c(normal(2, 3, 4), normal(2, 1, 4), axis=-1, eps=0.1)
    c(normal(3, 5).strided(), normal(3, 5))


@cases("paddle.nn.CosineSimilarity")
def _(c):
    c.layer()(normal(3, 4), normal(3, 4))
    c.layer(axis=0, eps=1e-3)(normal(3, 4, dtype="float64"), normal(3, 4, dtype="float64"))


@cases("paddle.nn.PairwiseDistance")
def _(c):
    for p in (2.0, 1.0, 3.0, float("inf")):
        c.layer(p)(normal(3, 4), normal(3, 4))
    c.layer(2.0, 1e-3, True)(normal(3, 4, dtype="float64"), normal(3, 4, dtype="float64"))
    c.layer()(normal(4), normal(4))
    c.layer(0.0)(normal(3, 4).fixed(), normal(3, 4).fixed())


for name in ("cross_entropy", "softmax_with_cross_entropy"):

    @cases(f"{F}.{name}")
    def _(c):
        for dtype in FLOATS:
            for labels in ("int64", "int32"):
                c(normal(3, 5, dtype=dtype), ints(3, 1, dtype=labels))
            c(normal(3, 5, dtype=dtype), array(SOFT, dtype).fixed(), soft_label=True)
        c(normal(3, 5), array([[1], [-100], [4]], "int64"))
        c(normal(3, 5), array([[1], [0], [4]], "int64"), ignore_index=0)
        c(normal(2, 5, 3), ints(2, 1, 3), axis=1)
        c(normal(1, 5), ints(1, 1))
        c(normal(3, 5).strided(), ints(3, 1))
        c(array([[1000.0, 0.0, -1000.0]]), array([[1]], "int64"))


@cases(f"{F}.softmax_with_cross_entropy")
def _(c):
    c(normal(3, 5), ints(3, 1), return_softmax=True)
    c(normal(3, 5), ints(3, 1), numeric_stable_mode=False)


@cases(f"{F}.cross_entropy")
def _(c):
    for reduction in REDUCTIONS:
        c(normal(3, 5), ints(3), reduction=reduction)
        c(normal(3, 5), ints(3), uniform(5).fixed(), reduction=reduction)
        c(normal(3, 5), array(SOFT).fixed(), reduction=reduction, soft_label=True)
        c(normal(3, 5), array(SOFT).fixed(), uniform(5).fixed(), reduction=reduction, soft_label=True)
        c(normal(3, 5), array([1, -100, 4], "int64"), uniform(5).fixed(), reduction=reduction)
        c(normal(3, 5), ints(3), label_smoothing=0.1, reduction=reduction)
        c(uniform(3, 5, low=0.1, high=0.9), ints(3), use_softmax=False, reduction=reduction)
    c(normal(2, 3, 5), ints(2, 3))
    c(normal(2, 5, 3, 2), ints(2, 3, 2), axis=1)
    c(normal(2, 5, 3), ints(2, 3), uniform(5).fixed(), axis=1)
    c(normal(5), array(2, "int64"))
    c(normal(3, 5), array([-100, -100, -100], "int64"))
    c(normal(3, 5), ints(3), reduction="average", _raises=True)
    c(normal(3, 5), ints(4), _raises=True)
    c(normal(3, 5), array([1, 7, 2], "int64"), _raises=True)


@cases("paddle.nn.CrossEntropyLoss")
def _(c):
    c.layer()(normal(3, 5), ints(3))
    c.layer(of("paddle.to_tensor([1.0, 2.0, 0.5])"), reduction="sum")(normal(2, 3), ints(2, high=3))
    c.layer(ignore_index=1, reduction="none")(normal(4, 3), ints(4, high=3))
    c.layer(soft_label=True, axis=1)(normal(1, 3, 2), array([[[0.5, 0.0], [0.25, 0.75], [0.25, 0.25]]]).fixed())
    c.layer(use_softmax=False, label_smoothing=0.0)(uniform(3, 5, low=0.1), ints(3))


@cases(f"{F}.nll_loss")
def _(c):
    for dtype in FLOATS:
        for reduction in REDUCTIONS:
            c(normal(3, 5, dtype=dtype), ints(3), reduction=reduction)
    c(normal(3, 5), ints(3), uniform(5).fixed())
    c(normal(3, 5), array([1, 2, 2], "int64"), uniform(5).fixed(), 2, "sum")
    c(normal(2, 5, 3, 2), ints(2, 3, 2), reduction="none")
    c(normal(2, 5, 3), ints(2, 3), uniform(5).fixed())
    c(normal(2, 3), ints(2, high=3), reduction="x", _raises=True)


@cases("paddle.nn.NLLLoss")
def _(c):
    c.layer()(normal(3, 5), ints(3))
    c.layer(of("paddle.to_tensor([1.0, 2.0, 0.5])"), 0, "sum")(normal(4, 3), ints(4, high=3))


@cases(f"{F}.dice_loss")
def _(c):
    c(probabilities(3, 4), ints(3, 1, high=4))
    c(probabilities(2, 3, 5, 4), ints(2, 3, 5, 1, high=4, dtype="int32"), 1e-3)
    c(probabilities(3, 4, dtype="float64"), ints(3, 1, high=4))
    c(probabilities(1, 3).strided(), ints(1, 1, high=3))
    c(probabilities(2, 3, 4), ints(2, 3, 1, high=4), _second=True)
    c(probabilities(3, 4), ints(3, high=4), _raises=True)
    c(probabilities(3, 4), ints(2, 1, high=4), _raises=True)
    c(probabilities(3, 4), label(3, 1), _raises=True)


@cases(f"{F}.npair_loss")
def _(c):
    c(normal(5, 4), normal(5, 4), array([0, 1, 0, 2, 1], "int64"))
    c(normal(3, 4), normal(3, 4), array([1.0, 2.0, 1.0]).fixed(), 0.1)
    c(normal(1, 3), normal(1, 3), array([4], "int64"), l2_reg=0.0)
    c(normal(3, 5).strided(), normal(3, 5), ints(3))
    c(normal(0, 3), normal(0, 3), ints(0), _raises=True)


@cases(f"{F}.bilinear")
def _(c):
    for dtype in FLOATS:
        c(normal(3, 2, dtype=dtype), normal(3, 4, dtype=dtype), normal(5, 2, 4, dtype=dtype), normal(1, 5, dtype=dtype))
    c(normal(3, 2), normal(3, 4), normal(5, 2, 4))
    c(normal(1, 1), normal(1, 1), normal(1, 1, 1), normal(1, 1))
    c(normal(3, 2).strided(), normal(3, 4), normal(5, 2, 4).strided())
    c(normal(2, 2), normal(2, 3), normal(2, 2, 3), _second=True)
    c(normal(3, 2), normal(3, 4), normal(5, 3, 4), _raises=True)


@cases("paddle.nn.Bilinear")
def _(c):
    c.layer(2, 3, 4)(normal(5, 2), normal(5, 3))
    c.layer(2, 3, 1, bias_attr=False, name="product")(normal(1, 2), normal(1, 3))
    c.layer(3, 2, 2, weight_attr=of("paddle.nn.initializer.Constant(0.5)"), _default="float64")(
        normal(3, 3, dtype="float64"), normal(3, 2, dtype="float64")
    )


def lengths(*values):
    return array(values, "int64")


def words(*rows):
    return array(rows, "int32")


@cases(f"{F}.ctc_loss")
def _(c):
    for dtype in FLOATS:
        for reduction in REDUCTIONS:
            c(normal(5, 3, 4, dtype=dtype), words([1, 2], [3, 3], [1, 0]), lengths(5, 5, 2), lengths(2, 2, 1), reduction=reduction)
    c(normal(7, 2, 5), words([4, 4, 4], [1, 2, 1]), lengths(7, 6), lengths(3, 3), norm_by_times=True)
    c(normal(6, 2, 4), words([0, 1], [2, 2]), lengths(6, 4), lengths(2, 2), 3, "sum")
    c(normal(5, 3, 4), words([1, 2], [3, 3], [1, 1]), lengths(5, 2, 1), lengths(2, 2, 2), reduction="none")
    c(normal(5, 3, 4), words([1, 2], [3, 3], [1, 1]), lengths(5, 2, 1), lengths(2, 2, 2), 0, "none", False, True)
    c(normal(4, 2, 3), words([1, 2], [2, 1]), lengths(4, 3), lengths(0, 2), reduction="none")
    c(normal(1, 1, 2), words([1]), lengths(1), lengths(1))
    c(normal(20, 1, 3, scale=30.0), words([1, 2, 1, 1]), lengths(20), lengths(4))
    c(normal(5, 1, 4).strided(), words([1, 2]), lengths(5), lengths(2))
    c(normal(5, 1, 4), words([1, 2]), lengths(5), lengths(2), reduction="average", _raises=True)
    c(normal(5, 1, 4), words([1, 2]), lengths(5), lengths(2), blank=4, _raises=True)


@cases("paddle.nn.CTCLoss")
def _(c):
    c.layer()(normal(5, 2, 4), words([1, 2], [3, 0]), lengths(5, 4), lengths(2, 1))
    c.layer(3, "sum", True)(normal(5, 2, 4), words([1, 2], [0, 0]), lengths(5, 4), lengths(2, 1), norm_by_times=True)


TABLE, CODE = array([[0, 2, -1], [0, 1, 3]], "int64"), array([[1, 0, -1], [0, 1, 1]], "int64")


@cases(f"{F}.hsigmoid_loss")
def _(c):
    for dtype in FLOATS:
        c(normal(4, 3, dtype=dtype), array([[0], [4], [2], [3]], "int64"), 5, normal(4, 3, dtype=dtype), normal(4, 1, dtype=dtype))
    for classes in (2, 3, 7, 8, 9):
        c(normal(classes, 3), array([[i] for i in range(classes)], "int64"), classes, normal(classes - 1, 3))
    c(normal(2, 3), array([1, 0], "int64"), 6, normal(5, 3), normal(5, 1))
    c(normal(2, 3), array([[1], [0]], "int64"), 4, normal(4, 3), normal(4, 1), TABLE, CODE)
    c(normal(2, 3), array([[1], [0]], "int64"), 4, normal(4, 3), None, TABLE, CODE)
    c(normal(3, 5).strided(), ints(3, 1, high=4), 4, normal(3, 5))
    c(normal(2, 3, scale=100.0), ints(2, 1, high=4), 4, normal(3, 3))
    c(normal(2, 3), ints(2, 1, high=1), 1, normal(1, 3), _raises=True)


@cases("paddle.nn.HSigmoidLoss")
def _(c):
    c.layer(3, 5)(normal(4, 3), ints(4, 1))
    c.layer(3, 4, bias_attr=False, is_custom=True)(normal(2, 3), ints(2, 1, high=4), TABLE, CODE)
    c.layer(3, 4, is_custom=True, is_sparse=False, _default="float64")(normal(2, 3, dtype="float64"), ints(2, 1, high=4), TABLE, CODE)
    c(3, 1, _raises=True)
