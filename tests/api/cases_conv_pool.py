"""Convolutions, pools, padding, linear maps, embeddings: functions and layers."""

from tests.api.table import FLOATS, apart, array, cases, ints, normal, of

F = "paddle.nn.functional"
SIZES = {1: (7,), 2: (6, 5), 3: (4, 5, 3)}
LAYOUTS = {1: ("NCL", "NLC"), 2: ("NCHW", "NHWC"), 3: ("NCDHW", "NDHWC")}


def last(shape):
    """Channels moved to the end."""
    return shape[0], *shape[2:], shape[1]


for n in (1, 2, 3):
    size, (first, channels_last) = SIZES[n], LAYOUTS[n]
    taps = (3, 2, 2)[:n]

    @cases(f"{F}.conv{n}d")
    def _(c):
        x, w = (2, 4, *size), (6, 4, *taps)
        for dtype in FLOATS:
            # On some processors Paddle adds in an order that is off by up to 6e-6 from the exact sums (ours is by 3e-6).
            c(normal(*x, dtype=dtype), normal(*w, dtype=dtype), normal(6, dtype=dtype), _atol=4e-6 if dtype == "float32" else None)
        c(normal(*x), normal(*w), _atol=4e-6)
        c(normal(*x), normal(*w), None, 2)
        c(normal(*x), normal(*w), None, 1, 1)
        c(normal(*x), normal(*w), normal(6), padding="SAME")
        c(normal(*x), normal(*w), None, 2, "SAME")
        c(normal(*x), normal(*w), padding="VALID", _atol=4e-6)
        c(normal(*x), normal(6, 2, *taps), groups=2)
        c(normal(*x), normal(4, 1, *taps), groups=4)
        c(normal(*x), normal(*w), padding=1, dilation=2)
        c(normal(*x), normal(*w), stride=[2] * n, padding=[1] * n, dilation=[1] * n)
        c(normal(*x), normal(*w), padding=[1, 0] * n)
        c(normal(*last(x)), normal(*w), normal(6), data_format=channels_last)
        c(normal(1, 4, *taps), normal(*w))
        c(normal(*x).strided(), normal(*w))
        c(normal(*x), normal(6, 3, *taps), _raises=True)
        c(normal(4), normal(*w), _raises=True)

    @cases(f"paddle.nn.Conv{n}D")
    def _(c):
        x = (2, 4, *size)
        c.layer(4, 6, 3 if n < 3 else 2)(normal(*x))
        c.layer(4, 6, taps if n > 1 else 3, 2, 1)(normal(*x))
        c.layer(4, 6, 2, groups=2, bias_attr=False)(normal(*x))
        c.layer(4, 4, 2, padding=1, dilation=2, padding_mode="reflect")(normal(*x))
        c.layer(4, 4, 3, padding=1, padding_mode="circular")(normal(*x))
        c.layer(4, 4, 3, padding=1, padding_mode="replicate")(normal(*x)) if n < 3 else None
        c.layer(4, 2, 2, weight_attr=of("paddle.nn.initializer.Constant(0.1)"), bias_attr=of("paddle.nn.initializer.Normal()"))(normal(*x))
        c.layer(4, 6, 2, data_format=channels_last)(normal(*last(x)))
        c.layer(4, 6, 2, padding="SAME")(normal(*x))
        c.layer(4, 2, 2, _default="float64")(normal(1, 4, *[3] * n, dtype="float64").strided())
        c.layer(4, 2, 2, 1, 1)(normal(3, 4, *[1] * n))
        c.layer(3, 4, 3, groups=2)(_raises=True)

    for kind in ("avg", "max"):

        @cases(f"{F}.{kind}_pool{n}d")
        def _(c):
            x = (2, 3, *size)
            for dtype in FLOATS:
                # Paddle's means are divided in float32
                c(apart(*x, dtype=dtype, step=0.03125), 2, _rtol=1e-7 if dtype == "float64" else None)
            c(apart(*x, step=0.03125), 2, 1)
            c(apart(*x, step=0.03125), 3 if n < 3 else 2, 2, 1)
            c(apart(*x, step=0.03125), list(taps), [2] * n)
            c(apart(*x, step=0.03125), 2, ceil_mode=True)
            c(apart(*x, step=0.03125), 2, padding="SAME") if n > 1 else None
            c(apart(*x, step=0.03125), 2, padding="VALID")
            c(apart(*x, step=0.03125).strided(), 2)
            c(apart(1, 1, *([2] * n)), 2)
            if n > 1:
                c(apart(*last(x), step=0.03125), 2, data_format=channels_last)
            if kind == "avg":
                c(apart(*x, step=0.03125), 2, 2, 1, False)
                if n > 1:
                    c(apart(*x, step=0.03125), 2, divisor_override=3)
            else:
                c(apart(*x, step=0.03125), 2, return_mask=True)

        @cases(f"paddle.nn.{kind.title()}Pool{n}D")
        def _(c):
            c.layer(2)(apart(2, 3, *size, step=0.03125))
            c.layer(kernel_size=3 if n < 3 else 2, stride=1, padding=1)(
                apart(2, 3, *size, dtype="float64", step=0.03125), _rtol=1e-7, _atol=1e-8
            )
            c.layer(2, ceil_mode=True)(apart(1, 2, *size, step=0.03125))

        @cases(f"{F}.adaptive_{kind}_pool{n}d")
        def _(c):
            x = (2, 3, *size)
            for dtype in FLOATS:
                # Paddle's means are divided in float32
                c(apart(*x, dtype=dtype, step=0.03125), 2, _rtol=1e-7 if dtype == "float64" else None)
            c(apart(*x, step=0.03125), 1)
            c(apart(*x, step=0.03125), 3)
            c(apart(*x, step=0.03125).strided(), 2)
            if n > 1:
                c(apart(*x, step=0.03125), [2, *([3] * (n - 1))])
                c(apart(*x, step=0.03125), [None, *([2] * (n - 1))])
            if kind == "max":
                c(apart(*x, step=0.03125), 2, return_mask=True)
            elif n > 1:
                c(apart(*last(x), step=0.03125), 2, data_format=channels_last)

        @cases(f"paddle.nn.Adaptive{kind.title()}Pool{n}D")
        def _(c):
            c.layer(2)(apart(2, 3, *size, step=0.03125))
            c.layer(output_size=3)(apart(2, 3, *size, dtype="float64", step=0.03125), _rtol=1e-7, _atol=1e-8)
            c.layer(1)(apart(1, 2, *size, step=0.03125))

    @cases(f"paddle.nn.Pad{n}D")
    def _(c):
        x = (2, 3, *size)
        c.layer(1)(normal(*x))
        c.layer([1, 2] * n, "reflect")(normal(*x))
        c.layer([1, 0] * n, mode="replicate")(normal(*x, dtype="float64"))
        c.layer([1, 2] * n, "constant", 2.5)(normal(*x))
        c.layer([0, 1] * n, "circular", data_format=channels_last)(normal(*last(x)))
        c.layer([1, 2] * n)(normal(1, 2, *[1] * n).strided())


@cases(f"{F}.pad")
def _(c):
    for dtype in FLOATS:
        c(normal(2, 3, dtype=dtype), [1, 2, 0, 1])
    c(normal(2, 3, 4), [1, 2])
    c(normal(2, 3, 4), [1, 2], "reflect", data_format="NCL")
    c(normal(2, 3, 4, 5), [1, 2, 1, 0], "replicate")
    c(normal(2, 3, 4, 5), [1, 2, 1, 0], "circular", data_format="NHWC")
    c(normal(2, 3, 4, 5), [1, 0, 2, 1], value=3.0)
    c(normal(2, 3, 4, 5, 3), [1, 0, 2, 1, 0, 1], "constant", 1.0, "NDHWC")
    c(normal(2, 3, 4, 5), [0, 0, 1, 1, 0, 0, 2, 0])
    c(normal(2, 3, 4, 5), array([1, 1, 0, 2], "int32"))
    c(normal(3), [1, 2])
    c(ints(2, 3), [1, 1, 0, 0])
    c(normal(3, 5).strided(), [1, 0, 0, 1])
    c(normal(2, 3, 4), [5, 5], "reflect", data_format="NCL", _raises=True)
    c(normal(2, 3, 4), [1, 1], "mirror", data_format="NCL", _raises=True)


@cases(f"{F}.unfold")
def _(c):
    for dtype in FLOATS:
        c(normal(2, 3, 6, 5, dtype=dtype), [2, 3], _forms=False)
    c(normal(1, 2, 5, 5), 3, 2, 1, _forms=False)
    c(normal(1, 2, 6, 6), 2, [2, 1], [1, 0, 0, 1], 2, _forms=False)
    c(normal(2, 2, 5, 7).strided(), 3, _forms=False)


@cases(f"{F}.linear")
def _(c):
    for dtype in FLOATS:
        c(normal(3, 4, dtype=dtype), normal(4, 2, dtype=dtype), normal(2, dtype=dtype))
    c(normal(2, 3, 4), normal(4, 2))
    c(normal(4), normal(4, 2), normal(2))
    c(normal(0, 4), normal(4, 2), normal(2))
    c(normal(3, 4).strided(), normal(4, 1))
    c(normal(3, 4), normal(3, 2), _raises=True)


@cases("paddle.nn.Linear", "paddle.nn.Linear.weight", "paddle.nn.Linear.bias")
def _(c):
    c.layer(4, 3)(normal(2, 4))
    c.layer(4, 3, bias_attr=False)(normal(2, 5, 4).strided())
    c.layer(4, 3, of("paddle.ParamAttr(initializer=paddle.nn.initializer.Normal())"))(normal(4))
    c.layer(
        4, 3, weight_attr=of("paddle.ParamAttr('own', trainable=False)"), bias_attr=of("paddle.nn.initializer.Constant(0.5)"), name="line"
    )(normal(2, 4))
    c.layer(in_features=1, out_features=1)(normal(0, 1))
    c.layer(4, 3)(normal(2, 5), _raises=True)
    c.layer(3, 5, _default="float64")(normal(3, 1, 3, dtype="float64").strided())
    c.expr(
        "(lambda m: (m.weight, m.bias, m.weight.shape, m.bias.shape, m.weight.stop_gradient, m.weight.name, "
        "m.weight.trainable))(paddle.nn.Linear(2, 3))",
        _no_grad=True,
    )


@cases(f"{F}.embedding")
def _(c):
    for dtype in FLOATS:
        for index in ("int32", "int64"):
            c(array([[0, 3], [3, 1]], index), normal(5, 2, dtype=dtype))
    c(array([1, 2, 2], "int64"), normal(4, 3), 2)
    c(array([1, 2, 2], "int64"), normal(4, 3), padding_idx=-1)
    c(array(1, "int64"), normal(4, 3))
    c(ints(0, 2), normal(5, 3))
    c(ints(3, 2).strided(), normal(5, 1))
    c(array([1], "int64"), normal(4, 3), 9, _raises=True)


@cases("paddle.nn.Embedding")
def _(c):
    c.layer(5, 3)(ints(2, 4))
    c.layer(5, 3, padding_idx=1)(array([[0, 1], [1, 4]], "int64"))
    c.layer(5, 2, weight_attr=of("paddle.nn.initializer.Constant(0.5)"))(ints(3, dtype="int32"))
    c.layer(5, 3, -1)(ints(2, 4))
    c.layer(5, 3, _default="float64")(ints(3, 5).strided())
    c.layer(5, 3)(ints(0, 4))
    c.layer(5, 3)(ints())
    c.layer(0, 3)(_raises=True)
    c.layer(5, 3, 7)(_raises=True)


for name in ("dropout", "dropout2d", "dropout3d", "alpha_dropout"):
    shape = {"dropout2d": (2, 3, 2, 2), "dropout3d": (2, 3, 2, 2, 1)}.get(name, (4, 5))

    @cases(f"{F}.{name}")
    def _(c):
        for dtype in FLOATS:
            c(normal(*shape, dtype=dtype))
        c(normal(*shape), 0.2)
        c(normal(*shape), 0.0)
        c(normal(*shape), 1.0)
        c(normal(*shape), 0.4, training=False)
        c(normal(*shape).strided(), p=0.3)
        c(normal(*shape), 1.5, _raises=True)
        if name == "dropout":
            c(normal(4, 5), 0.4, mode="downscale_in_infer")
            c(normal(4, 5), 0.4, training=False, mode="downscale_in_infer")
            c(normal(4, 5), 0.4, 0)
            c(normal(4, 3, 5), 0.4, axis=[0, 2])
            c(normal(3), 0.4)
            c(normal(0, 3))
            c(normal(4, 5), 0.4, mode="upscale", _raises=True)


    @cases(
        f"paddle.nn.{ {'dropout': 'Dropout', 'dropout2d': 'Dropout2D', 'dropout3d': 'Dropout3D', 'alpha_dropout': 'AlphaDropout'}[name] }"
    )
    def _(c):
        c.layer()(normal(*shape))
        c.layer(0.25)(normal(*shape, dtype="float64"))
        c.layer(p=0.0, name="own")(normal(*shape))
        c.layer()(normal(*[1, 3, 5, 3, 3][: len(shape)]).strided())
        if name == "dropout":
            c.layer(0.3, axis=1, mode="downscale_in_infer")(normal(*shape))


@cases("paddle.nn.Flatten")
def _(c):
    c.layer()(normal(2, 3, 4))
    c.layer(0, 1)(normal(2, 3, 4, dtype="float64"))
    c.layer(start_axis=1, stop_axis=2)(normal(2, 3, 1, 5))
    c.layer()(normal(0, 3, 2))
