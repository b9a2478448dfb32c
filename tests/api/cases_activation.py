"""Activations: functions, in-place forms and layers."""

from tests.api.table import FLOATS, HALVES, apart, array, cases, ints, normal, uniform

F = "paddle.nn.functional"


def activation(name, layer="", *calls, second=False, whole=(), recipe=normal, rtol=None):
    """`calls` are further arguments (a tuple) or keywords (a dict) to try."""

    @cases(f"{F}.{name}")
    def _(c):
        for dtype in (*FLOATS, *HALVES):
            c(recipe(3, 4, dtype=dtype), _second=second and dtype in FLOATS, _rtol=rtol if dtype == "float64" else None)
        for shape in ((), (1,), (0, 3), (7, 2, 1)):
            c(recipe(*shape))
        c(recipe(3, 5).strided())
        for more in calls:
            c(recipe(2, 4), *more) if isinstance(more, tuple) else c(recipe(2, 4), **more)
        for dtype in whole:
            c(normal(3, dtype=dtype))

    if layer:

        @cases(f"paddle.nn.{layer}")
        def _(c):
            c.layer()(recipe(2, 4))
            c.layer()(recipe(2, 3, dtype="float64"), _rtol=rtol)
            c.layer()(recipe(0, 4))
            for more in calls:
                (c.layer(*more) if isinstance(more, tuple) else c.layer(**more))(recipe(2, 4))
            c.layer(name="own")


activation("elu", "ELU", (0.2,), {"alpha": 2.0}, second=True)
activation("gelu", "GELU", (True,), {"approximate": False})
activation("hardshrink", "Hardshrink", (1.0,))
activation("hardsigmoid", "Hardsigmoid")
activation("hardswish", "Hardswish")
activation("hardtanh", "Hardtanh", (-0.5, 0.7))
activation("leaky_relu", "LeakyReLU", (0.3,), {"negative_slope": 0.0}, second=True)
activation("log_sigmoid", "LogSigmoid")
activation("relu", "ReLU", second=True, whole=("int32", "int64"))
activation("relu6", "ReLU6")
activation("selu", "SELU", (1.5, 2.0), {"scale": 1.1, "alpha": 0.5}, rtol=1e-7)
activation("sigmoid", "Sigmoid", second=True)
activation("softplus", "Softplus", (2, 1), {"beta": 0.5, "threshold": 3.0}, second=True)
activation("softshrink", "Softshrink", (0.2,))
activation("softsign", "Softsign")
activation("swish", "Swish", second=False)
activation("silu", "Silu", second=True)
activation("mish", "Mish")
activation("tanh", "Tanh", second=True)
activation("tanhshrink", "Tanhshrink")
activation("thresholded_relu", "ThresholdedReLU", (0.5,), {"threshold": 0.3, "value": 2.0})

KINKS = array([-3.0, -1.0, -0.5, -0.0, 0.0, 0.5, 1.0, 3.0, 6.0, 20.0, 30.0])
for name in (
    "relu",
    "relu6",
    "hardshrink",
    "hardsigmoid",
    "hardswish",
    "hardtanh",
    "leaky_relu",
    "softshrink",
    "thresholded_relu",
    "softplus",
    "elu",
    "selu",
):

    @cases(f"{F}.{name}")
    def _(c):
        c(KINKS, _forms=False)


for name in ("softmax", "log_softmax"):
    layer = {"softmax": "Softmax", "log_softmax": "LogSoftmax"}[name]

    @cases(f"{F}.{name}")
    def _(c):
        for dtype in FLOATS:
            for axis in (-1, 0, 1):
                c(normal(3, 4, dtype=dtype), axis, _second=name == "softmax" and axis == 0)
        c(normal(2, 3, 4), -2)
        c(normal())
        c(normal(1))
        c(normal(0, 3))
        c(normal(3, 5).strided(), 0)
        c(normal(2, 3), -1, "float64")
        c(ints(2, 3), dtype="float32")
        c(array([[1e4, 0.0, -1e4], [88.0, 89.0, 90.0]]))
        c(normal(2, 3), 2, _raises=True)

    @cases(f"paddle.nn.{layer}")
    def _(c):
        c.layer()(normal(2, 3))
        c.layer(0)(normal(2, 3, dtype="float64"))
        c.layer(axis=1, name="s")(normal(2, 3, 4))
        c.layer()(normal(3, 1).strided())
        c.layer()(normal(0, 3))


@cases(f"{F}.prelu")
def _(c):
    for dtype in FLOATS:
        c(normal(2, 3, 4, dtype=dtype), uniform(3, dtype=dtype))
    c(normal(2, 3), uniform(1))
    c(normal(2, 4, 3), uniform(3), "NLC")
    c(normal(2, 3, 2, 2).strided(), uniform(3))
    c(normal(1, 3), uniform(3))
    c(normal(2, 3, 4), uniform(2), _raises=True)


@cases("paddle.nn.PReLU")
def _(c):
    c.layer()(normal(2, 3))
    c.layer(3, 0.1)(normal(2, 3, 4))
    c.layer(num_parameters=4, data_format="NHWC")(normal(2, 3, 3, 4))
    c.layer(1, _default="float64")(normal(3, 1, dtype="float64").strided())


@cases(f"{F}.maxout")
def _(c):
    for dtype in FLOATS:
        c(apart(2, 6, 2, 2, dtype=dtype), 2)
    c(apart(2, 6, 1, 3), 3, 1)
    c(apart(2, 2, 2, 6), 2, 3)
    c(apart(2, 2, 2, 6), groups=3, axis=-1)
    c(apart(2, 5, 2, 2), 2, _raises=True)


@cases("paddle.nn.Maxout")
def _(c):
    c.layer(2)(apart(2, 4, 2, 2))
    c.layer(2, axis=3)(apart(2, 2, 2, 4, dtype="float64"))
    c.layer(3)(apart(1, 3, 5, 3).strided())


for name in ("relu_", "elu_", "softmax_", "tanh_", "leaky_relu_", "hardtanh_", "thresholded_relu_"):

    @cases(f"{F}.{name}")
    def _(c):
        for dtype in FLOATS:
            c.expr(f"(lambda y: (lambda r: (r, r is y, y.inplace_version))(F.{name}(y)))(x * 1)", x=normal(3, 4, dtype=dtype))
        c.expr(f"(lambda y: (lambda r: (r, r is y, y.inplace_version))(F.{name}(y)))(x * 1)", x=normal(0, 3))
        c.expr(f"F.{name}(x)", x=normal(3, 5).strided().fixed())
        if name == "elu_":
            c.expr("F.elu_(x * 1, 0.3)", x=normal(2, 3))
        if name == "softmax_":
            c.expr("F.softmax_(x * 1, 0)", x=normal(2, 3))


@cases(f"{F}.normalize")
def _(c):
    for dtype in FLOATS:
        c(normal(3, 4, dtype=dtype))
    c(normal(3, 4), 1, 0)
    c(normal(3, 4), p=3, axis=-1, epsilon=1e-10)
    c(normal(4), axis=0)
    c(normal(2, 3, 2), 2, 1)
    c(normal(3, 5).strided())
    c(array([[0.0, 0.0], [3.0, 4.0]]), _no_grad=True)


@cases(f"{F}.label_smooth")
def _(c):
    for dtype in FLOATS:
        c(uniform(2, 3, 4, dtype=dtype))
    c(uniform(2, 4), epsilon=0.3)
    c(uniform(2, 4), uniform(1, 4).fixed(), 0.2)
    c(uniform(3, 5).strided())


@cases(f"{F}.one_hot")
def _(c):
    for dtype in ("int32", "int64"):
        c(array([1, 0, 3], dtype), 4)
    c(array([[1], [2]], "int64"), 3)
    c(array(2, "int64"), 4)
    c(ints(0, 2), 3)
    c(ints(3, 5).strided(), num_classes=5)
    c(array([4], "int64"), 3, _raises=True)
    c(array([0], "int64"), -1)
