"""Gradients, modes, dtypes, devices and files."""

from tests.api.table import cases, caught, check, normal

PYLAYER = (
    "paddle.autograd.PyLayer", "paddle.autograd.PyLayer.apply", "paddle.autograd.PyLayer.forward", "paddle.autograd.PyLayer.backward",
    "paddle.autograd.PyLayerContext.save_for_backward", "paddle.autograd.PyLayerContext.saved_tensor",
)  # fmt: skip


def leaf(paddle, values):
    x = paddle.to_tensor(values)
    x.stop_gradient = False
    return x


@check("paddle.Tensor.backward", "paddle.Tensor.stop_gradient", traits=("float32", "gradient"))
def backward_gathers_gradients(paddle, np, rng):
    x, y = (leaf(paddle, rng.standard_normal((2, 3)).astype("float32")) for _ in range(2))
    found = []
    (x * y).sum().backward()
    found.append([x.grad.clone(), y.grad.clone()])
    (x * x).backward()
    found.append(x.grad.clone())
    (x * 2).backward(paddle.full([2, 3], 3.0))
    found.append(x.grad.clone())
    z = x * y
    z.sum().backward(retain_graph=True)
    z.sum().backward()
    found.append([x.grad.clone(), x.grad.stop_gradient, type(x.grad).__name__, x.gradient()])
    x.clear_gradient()
    found.append(x.grad.numpy())
    x.clear_gradient(False)
    found.append(x.grad is None)
    w = x * 2
    w.retain_grads()
    w.sum().backward()
    found.append([w.grad, w.is_leaf, x.is_leaf])
    found.append([caught(lambda: (x * 2).backward(paddle.ones([5])))])
    paddle.autograd.backward([(x * 2).sum(), (x * y).sum()], [None, paddle.to_tensor(2.0)])
    found.append(x.grad)
    return found


@check("paddle.Tensor.backward", traits=("float32", "gradient"))
def hooks_see_and_change_gradients(paddle, np, rng):
    x = leaf(paddle, rng.standard_normal((3,)).astype("float32"))
    y = x * 2
    seen = []
    first = y.register_hook(lambda g: seen.append(g.numpy()))
    y.register_hook(lambda g: g * 10)
    x.register_hook(lambda g: g + 1)
    (y * y).sum().backward()
    kept = x.grad.clone()
    return [seen, kept, first.remove(), first.remove(), caught(lambda: paddle.ones([1]).register_hook(lambda g: g))]


@check("paddle.grad", traits=("float32", "gradient"))
def grad_returns_gradients(paddle, np, rng):
    x, y, unused = (leaf(paddle, rng.standard_normal((2, 3)).astype("float32")) for _ in range(3))
    found = [
        paddle.grad((x * y).sum(), x),
        paddle.grad([x * y], [x, y], [paddle.full([2, 3], 2.0)]),
        paddle.grad([(x * y).sum(), x.sum()], [x]),
    ]
    found.append(paddle.grad((x * y).sum(), [x, unused], allow_unused=True))
    (first,) = paddle.grad((x**3).sum(), x, create_graph=True)
    (second,) = paddle.grad(first.sum(), x, create_graph=True)
    (third,) = paddle.grad(second.sum(), x)
    found.append([first.detach(), second.detach(), third])
    (g,) = paddle.grad((x * x * y).sum(), x, create_graph=True)
    (g * g).sum().backward()
    found.append([x.grad, y.grad, x.grad is not None])
    z = x * y
    found.append(paddle.grad(z.sum(), x, retain_graph=True) + paddle.grad(z.sum(), y))
    mid = x * 2
    found.append(paddle.grad((mid * y).sum(), mid))
    found.append(paddle.grad((x * y + x).sum(), [x], no_grad_vars=[y]))
    found.append(
        [
            caught(lambda: paddle.grad((x * y).sum(), unused)),
            caught(lambda: paddle.grad(x, 3)),
            caught(lambda: paddle.grad((x * y), [x], [paddle.ones([2]), None])),
        ]
    )
    return found


@check("paddle.no_grad", "paddle.autograd.PyLayer", traits=("float32",))
def nothing_is_recorded_under_no_grad(paddle, np, rng):
    x = leaf(paddle, np.ones(2, "float32"))

    @paddle.no_grad()
    def decorated(t):
        return t * 2

    @paddle.no_grad()
    def generator(t):
        yield t * 2

    with paddle.no_grad():
        inside = x * 2
        with paddle.enable_grad():
            again = x * 2
    with paddle.set_grad_enabled(False):
        off = x * 2
    return [t.stop_gradient for t in (inside, again, off, decorated(x), next(generator(x)), x * 2)] + [paddle.is_grad_enabled()]


@check(*PYLAYER, traits=("float32", "gradient"))
def own_functions_have_own_gradients(paddle, np, rng):
    class Cube(paddle.autograd.PyLayer):
        @staticmethod
        def forward(ctx, x, factor=1.0):
            ctx.save_for_backward(x)
            ctx.factor = factor
            return factor * x**3

        @staticmethod
        def backward(ctx, grad):
            (x,) = ctx.saved_tensor()
            return 3 * ctx.factor * x * x * grad

    class Two(paddle.autograd.PyLayer):
        @staticmethod
        def forward(ctx, x, y):
            ctx.save_for_backward(x, y)
            ctx.mark_not_inplace = None
            return x * y, x + y

        @staticmethod
        def backward(ctx, first, second):
            x, y = ctx.saved_tensor()
            return first * y + second, first * x + second

    class Constant(paddle.autograd.PyLayer):
        @staticmethod
        def forward(ctx, x):
            return x + 1

        @staticmethod
        def backward(ctx, grad):
            return None

    x, y = (leaf(paddle, rng.standard_normal((2, 3)).astype("float32")) for _ in range(2))
    out = Cube.apply(x, factor=2.0)
    out.sum().backward()
    found = [out.detach(), x.grad.numpy(), out.stop_gradient, out.is_leaf]
    a, b = Two.apply(x, y)
    found.append(paddle.grad([a.sum(), (b * b).sum()], [x, y]))
    a, b = Two.apply(x, y)
    found.append(paddle.grad(a.sum(), [x, y]))
    found.append(Cube.apply(x.detach()).stop_gradient)
    found.append(caught(lambda: Constant.apply(x).sum().backward()))
    return found


@check("paddle.autograd.PyLayer", "paddle.autograd.PyLayer.apply", traits=("float32", "gradient"))
def own_functions_are_differentiated_twice(paddle, np, rng):
    class Square(paddle.autograd.PyLayer):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, grad):
            (x,) = ctx.saved_tensor()
            return 2 * x * grad

    x = leaf(paddle, rng.standard_normal((3,)).astype("float32"))
    (first,) = paddle.grad(Square.apply(x).sum(), x, create_graph=True)
    return [first.detach(), paddle.grad((first * x).sum(), x)]


@check("paddle.Tensor.backward", traits=("float32", "gradient"))
def changes_in_place_are_noticed(paddle, np, rng):
    x = leaf(paddle, np.array([1.0, 2.0, 3.0], "float32"))
    y = x * 2
    z = y * y
    y[0] = 10.0
    stale = caught(lambda: z.sum().backward())
    a = leaf(paddle, np.ones(3, "float32"))
    b = a * 2
    b[1] = 5.0
    (b * 3).sum().backward()
    fine = leaf(paddle, np.ones(3, "float32"))
    c = fine + 1
    d = c * 2
    c.add_(paddle.ones([3]))
    d.sum().backward()

    def writes_to_a_leaf():
        fine[0] = 3.0

    return [stale, y.inplace_version, a.grad, fine.grad, caught(writes_to_a_leaf), caught(lambda: fine.add_(paddle.ones([3])))]


SHAPES_OF_LEAVES = ((3, 5), (), (0, 3), (1,), (2, 1, 3))


@cases("paddle.grad")
def _(c):
    for dtype in ("float32", "float64"):
        for shape in SHAPES_OF_LEAVES:
            c.expr("paddle.grad(x * x * y, [x, y])", x=normal(*shape, dtype=dtype), y=normal(*shape, dtype=dtype))
        c.expr("paddle.grad((x * y).sum(), x, paddle.full([], 3.0, x.dtype))", x=normal(3, 1, dtype=dtype), y=normal(4, dtype=dtype))
        c.expr("(lambda g: paddle.grad(g.sum(), x))(paddle.grad(x ** 3, x, create_graph=True)[0])", x=normal(3, 4, dtype=dtype))
    c.expr("paddle.grad((x[1:] * 2).sum(), x)", x=normal(3, 5).strided())


@check("paddle.Tensor.backward", "paddle.Tensor.stop_gradient", traits=("float32", "float64", "0-d", "empty", "one", "odd"))
def backward_reaches_leaves_of_all_shapes(paddle, np, rng):
    found = []
    for dtype in ("float32", "float64", "bfloat16"):
        for shape in SHAPES_OF_LEAVES:
            x = paddle.to_tensor(np.asarray(rng.standard_normal(shape)).astype("float64")).astype(dtype)
            x.stop_gradient = False
            (x * 3 + 1).backward()
            found.append([x.grad, x.grad.dtype])
    return found


@check(*PYLAYER, "paddle.no_grad", traits=("float32", "float64", "0-d", "empty", "one", "odd"))
def own_functions_take_all_shapes(paddle, np, rng):
    class Twice(paddle.autograd.PyLayer):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, grad):
            (x,) = ctx.saved_tensor()
            return 2 * x * grad

    found = []
    for dtype in ("float32", "float64"):
        for shape in SHAPES_OF_LEAVES:
            x = leaf(paddle, np.asarray(rng.standard_normal(shape)).astype(dtype))
            y = Twice.apply(x)
            with paddle.no_grad():
                other = Twice.apply(x)
            found.append({"result": y.detach(), "grad": paddle.grad(y, x), "other": [other, other.stop_gradient]})
    return found


# --- modes, dtypes, devices


@check("paddle.in_dynamic_mode", "paddle.enable_static", "paddle.disable_static")
def modes_are_switched(paddle, np, rng):
    found = [paddle.in_dynamic_mode()]
    paddle.enable_static()
    found.append(paddle.in_dynamic_mode())
    paddle.disable_static()
    return [*found, paddle.in_dynamic_mode()]


@check("paddle.get_default_dtype", "paddle.set_default_dtype", traits=("float64", "float32", "float16"))
def the_default_dtype_is_that_of_new_floats(paddle, np, rng):
    found = [paddle.get_default_dtype()]
    for dtype in ("float64", "float16", paddle.float32, "bfloat16"):
        paddle.set_default_dtype(dtype)
        found.append(
            [
                paddle.get_default_dtype(),
                paddle.ones([1]).dtype,
                paddle.to_tensor([1.5]).dtype,
                paddle.to_tensor(np.ones(1)).dtype,
                paddle.to_tensor([1]).dtype,
            ]
        )
    paddle.set_default_dtype("float32")
    return [found, caught(lambda: paddle.set_default_dtype("int32")), caught(lambda: paddle.set_default_dtype(3))]


@check("paddle.dtype", "paddle.float32", "paddle.int8", "paddle.Tensor.dtype")
def dtypes_have_names_and_are_compared(paddle, np, rng):
    names = ("bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64", "complex64", "complex128")
    found = [[str(getattr(paddle, n)), isinstance(getattr(paddle, n), paddle.dtype)] for n in names]
    x = paddle.ones([1])
    found.append(
        [
            x.dtype == paddle.float32,
            x.dtype == "float32",
            x.dtype != paddle.int8,
            x.dtype in (paddle.float32, paddle.int8),
            hash(x.dtype) == hash(paddle.float32),
        ]
    )
    found.append([x.astype(paddle.int8).dtype, x.astype("int8").dtype, paddle.zeros([1], paddle.int8)])
    return found


@check(
    "paddle.set_device", "paddle.get_device", "paddle.CPUPlace", "paddle.CUDAPlace", "paddle.CUDAPinnedPlace", "paddle.XPUPlace",
    "paddle.is_compiled_with_cuda", "paddle.is_compiled_with_xpu", "paddle.get_cudnn_version",
)  # fmt: skip
def a_build_for_cpus_says_so(paddle, np, rng):
    return {
        "set": str(paddle.set_device("cpu")), "get": paddle.get_device(),
        "places": [str(paddle.CPUPlace()), repr(paddle.CPUPlace()), paddle.CPUPlace() == paddle.CPUPlace()],
        "built": [paddle.is_compiled_with_cuda(), paddle.is_compiled_with_xpu(), paddle.is_compiled_with_rocm()],
        "cudnn": paddle.get_cudnn_version(),
        "on": str(paddle.ones([1], dtype="float32").place),
        "errors": [
            caught(lambda: paddle.set_device("gpu:0")),
            caught(lambda: paddle.set_device("abc")),
            caught(lambda: paddle.set_device("xpu")),
        ],
        "own": paddle.device.get_device(), "of a tensor": paddle.get_device(paddle.ones([1])),
    }  # fmt: skip


@check("paddle.seed")
def a_seed_gives_the_generator(paddle, np, rng):
    return [paddle.seed(5).initial_seed(), caught(lambda: paddle.seed("a"))]


# --- files


@check("paddle.save", "paddle.load", traits=("float32", "int64", "float64"))
def what_is_saved_is_loaded(paddle, np, rng):
    import io
    import tempfile

    line = paddle.nn.Linear(2, 3)
    optimizer = paddle.optimizer.Adam(0.1, parameters=line.parameters())
    line(paddle.ones([1, 2])).sum().backward()
    optimizer.step()
    things = [
        line.state_dict(), optimizer.state_dict(), paddle.ones([2, 2]),
        {"a": 1, "b": [paddle.zeros([1], "int64"), "text"], "c": {"d": 2.5}}, [1, 2.5, "x", None, True],
        paddle.ones([2], "float64"), (paddle.ones([1]), 3), np.arange(3), paddle.ones([2], "bfloat16"),
    ]  # fmt: skip
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for i, thing in enumerate(things):
            paddle.save(thing, f"{folder}/new/{i}.pdparams")
            found.append(paddle.load(f"{folder}/new/{i}.pdparams"))
        found.append(paddle.load(f"{folder}/new/0.pdparams", return_numpy=True))
        errors = [
            caught(lambda: paddle.load(f"{folder}/absent")),
            caught(lambda: paddle.save(line.state_dict(), f"{folder}/")),
            caught(lambda: paddle.save({}, f"{folder}/x", protocol=9)),
            caught(lambda: paddle.save({}, f"{folder}/x", protocol="a")),
        ]
    stream = io.BytesIO()
    paddle.save(line.state_dict(), stream)
    stream.seek(0)
    found.append(paddle.load(stream))
    return {"found": [dict(f) if isinstance(f, dict) else f for f in found], "errors": errors}
