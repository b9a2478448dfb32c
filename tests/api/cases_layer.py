"""Layers."""

from tests.api.table import cases, check, normal, of


@cases("paddle.nn.Linear")
def _(c):
    c.layer(4, 3)(normal(2, 4))
    c.layer(4, 3, bias_attr=False)(normal(2, 5, 4).strided())
    c.layer(4, 3, of("paddle.ParamAttr(initializer=paddle.nn.initializer.Normal())"))(normal(4))
    c.layer(4, 3)(normal(2, 5), _raises=True)


@check("paddle.nn.Layer.apply")
def apply_visits_children_first(paddle, np, rng):
    order = []
    model = paddle.nn.Sequential(paddle.nn.Linear(2, 3), paddle.nn.ReLU())
    same = model.apply(lambda layer: order.append(type(layer).__name__)) is model
    return {"order": order, "same": same}
