"""Which inputs of a loss get gradients: every float input of every loss asks for one, labels and weights included, alone and all together.
"""

from tests.api.table import INTS, array, cases, ints, normal, uniform

F = "paddle.nn.functional"


def probabilities(*shape, dtype="float32"):
    return uniform(*shape, low=0.05, high=0.95, dtype=dtype)


SIGNS = array([[1.0, -1.0, 1.0], [-1.0, -1.0, 1.0]])
SOFT = array([[0.1, 0.2, 0.3, 0.4, 0.0], [1.0, 0.0, 0.0, 0.0, 0.0], [0.2, 0.2, 0.2, 0.2, 0.2]])
P, Q, W = probabilities(2, 3), probabilities(2, 3), uniform(2, 3, low=0.5, high=2.0)
X, Y, Z = normal(2, 3), normal(2, 3), normal(2, 3)
ROW = uniform(3, low=0.5, high=2.0)
L, CLASS = normal(3, 5), uniform(5, low=0.5, high=2.0)

# The float inputs by name, and what else is given.
LOSSES = {
    "binary_cross_entropy": ({"input": P, "label": Q, "weight": W}, {}),
    "binary_cross_entropy_with_logits": ({"logit": X, "label": Q, "weight": W, "pos_weight": ROW}, {}),
    "cosine_embedding_loss": ({"input1": X, "input2": Y, "label": array([1.0, -1.0])}, {}),
    "cross_entropy": ({"input": L, "label": SOFT, "weight": CLASS}, {"soft_label": True}),
    "hinge_embedding_loss": ({"input": X, "label": SIGNS}, {}),
    "hsigmoid_loss": (
        {"input": normal(4, 3), "weight": normal(4, 3), "bias": normal(4, 1)},
        {"label": array([[0], [4], [2], [3]], "int64"), "num_classes": 5},
    ),
    "kl_div": ({"input": X, "label": P}, {}),
    "l1_loss": ({"input": X, "label": Y}, {}),
    "log_loss": ({"input": probabilities(4, 1), "label": probabilities(4, 1)}, {}),
    "margin_ranking_loss": ({"input": X, "other": Y, "label": SIGNS}, {"margin": 0.1}),
    "mse_loss": ({"input": X, "label": Y}, {}),
    "nll_loss": ({"input": L, "weight": CLASS}, {"label": array([1, 4, 1], "int64")}),
    "npair_loss": ({"anchor": X, "positive": Y, "labels": array([0.0, 1.0])}, {}),
    "poisson_nll_loss": ({"input": X, "label": uniform(2, 3, low=0.5, high=4.0)}, {}),
    "sigmoid_focal_loss": ({"logit": X, "label": Q, "normalizer": array([2.0])}, {}),
    "smooth_l1_loss": ({"input": X, "label": Y}, {}),
    "soft_margin_loss": ({"input": X, "label": SIGNS}, {}),
    "softmax_with_cross_entropy": ({"logits": L, "label": SOFT}, {"soft_label": True}),
    "square_error_cost": ({"input": X, "label": Y}, {}),
    "triplet_margin_loss": ({"input": X, "positive": Y, "negative": Z}, {}),
    "dice_loss": ({"input": probabilities(3, 4)}, {"label": ints(3, 1, high=4)}),
    "ctc_loss": (
        {"log_probs": normal(5, 1, 4)},
        {"labels": array([[1, 2]], "int32"), "input_lengths": array([5], "int64"), "label_lengths": array([2], "int64")},
    ),
}
FURTHER = {
    "binary_cross_entropy": ({"input": P, "label": Q}, {"reduction": "none"}),
    "binary_cross_entropy_with_logits": ({"logit": X, "label": Q}, {"reduction": "sum"}),
    "cross_entropy": ({"input": L, "label": SOFT}, {"soft_label": True, "reduction": "none"}),
    "kl_div": ({"input": X, "label": Y}, {"log_target": True}),
    "poisson_nll_loss": (
        {"input": uniform(2, 3, low=0.5, high=2.0), "label": uniform(2, 3, low=0.5, high=4.0)},
        {"log_input": False, "full": True},
    ),
    "nll_loss": ({"input": normal(2, 5, 3), "weight": CLASS}, {"label": ints(2, 3), "reduction": "none"}),
    "sigmoid_focal_loss": ({"logit": X, "label": Q}, {"reduction": "none"}),
    "smooth_l1_loss": ({"input": X, "label": Y}, {"delta": 0.3, "is_huber": False}),
    "triplet_margin_loss": ({"input": X, "positive": Y, "negative": Z}, {"swap": True, "margin": 3.0}),
}

for _table in (LOSSES, FURTHER):
    for _name, (_floats, _others) in _table.items():

        @cases(f"{F}.{_name}")
        def _(c):
            c(**_floats, **_others)
            # which crashes in Paddle there
            for alone in _floats if len(_floats) > 1 and _table is LOSSES and _name != "hsigmoid_loss" else ():
                c(**{k: v if k == alone else v.fixed() for k, v in _floats.items()}, **_others)


@cases(f"{F}.cross_entropy")
def _(c):
    hard = {"label": array([[1], [4], [1]], "int64")}
    for reduction in ("mean", "sum", "none"):
        c(input=L, weight=CLASS, reduction=reduction, **hard)
    c(input=L, label_smoothing=0.1, weight=CLASS, **hard)
    c(input=L, label=SOFT, soft_label=True, label_smoothing=0.1)
    c(input=probabilities(3, 5), label=SOFT, soft_label=True, use_softmax=False)
    c(input=normal(2, 3, 2), label=array([[[0.5, 0.25], [0.25, 0.0], [0.25, 0.75]]] * 2), soft_label=True, axis=1)
    c(input=L.fixed(), weight=CLASS, **hard)


# The layers hold weights of their own.
@cases("paddle.nn.NLLLoss")
def _(c):
    c.expr("paddle.nn.NLLLoss(weight=w)(x, paddle.to_tensor([1, 4, 1]))", w=CLASS, x=L)


@cases("paddle.nn.CrossEntropyLoss")
def _(c):
    c.expr("paddle.nn.CrossEntropyLoss(weight=w)(x, paddle.to_tensor([1, 4, 1]))", w=CLASS, x=L)
    c.expr("paddle.nn.CrossEntropyLoss(soft_label=True)(x, y)", x=L, y=SOFT)


@cases("paddle.nn.BCELoss")
def _(c):
    c.expr("paddle.nn.BCELoss(weight=w)(x, y)", w=W, x=P, y=Q)


@cases("paddle.nn.BCEWithLogitsLoss")
def _(c):
    c.expr("paddle.nn.BCEWithLogitsLoss(weight=w, pos_weight=p)(x, y)", w=W, p=ROW, x=X, y=Q)


@cases("paddle.nn.KLDivLoss")
def _(c):
    c.expr("paddle.nn.KLDivLoss()(x, y)", x=X, y=P)


# Other functions with inputs that only say how much: where to, how far, which ones.
@cases("paddle.lerp")
def _(c):
    c(X, Y, uniform(2, 3))
    c(X, Y, uniform(3))
    c(X, Y, uniform())
    c(X.fixed(), Y.fixed(), uniform(2, 3))
    c(normal(3), normal(2, 1), 0.25)


@cases(f"{F}.label_smooth")
def _(c):
    c(SOFT, epsilon=0.2)
    c(SOFT, prior_dist=array([[0.1, 0.2, 0.3, 0.4, 0.0]]), epsilon=0.2)


@cases(f"{F}.batch_norm")
def _(c):
    c(normal(4, 3), normal(3), uniform(3, low=0.5, high=2.0), normal(3), normal(3))


@cases(f"{F}.grid_sample")
def _(c):
    c(normal(1, 2, 3, 3), uniform(1, 2, 2, 2, low=-0.9, high=0.9))


@cases("paddle.where")
def _(c):
    c.expr("paddle.where(x > 0, x, y)", x=X, y=Y)


@cases("paddle.put_along_axis")
def _(c):
    c(X, array([[1, 0, 2]], "int64"), normal(1, 3), 1, broadcast=False)
    c(X, array([[1, 0, 1]], "int64"), normal(1, 3), 0, "add")
    c(X, array([[1, 0, 1]], "int64"), normal(1, 3), 0, "mul", broadcast=False)


@cases("paddle.atan2")
def _(c):
    c(X, Y)
    for dtype in INTS:  # which Paddle computes in float32 all the same
        c(array([1, -1], dtype), array([1, 0], dtype), _rtol=1e-6)


@cases("paddle.logit")
def _(c):
    c(array([0.5, -0.5, 1.5, 0.0, 1.0]))
    c(array([0.5, -0.5, 1.5, 0.1, 0.9]), 0.1)


