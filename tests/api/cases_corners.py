"""Calls at the edge of what a function takes: numbers counted from the end, windows that reach past the padding, sizes below nothing."""

from tests.api.table import array, cases, caught, check, normal

F = "paddle.nn.functional"


@cases(f"{F}.embedding")
def _(c):
    for index in (-1, -2, -4):
        c(array([0, 3, 2, 3], "int64"), normal(4, 3), padding_idx=index)
        c(array([[0, 3], [2, 3]], "int32"), normal(4, 3, dtype="float64"), padding_idx=index, scale_grad_by_freq=True)
    c(array([0, 3], "int64"), normal(4, 3), padding_idx=4, _raises=True)


@cases(f"{F}.avg_pool2d")
def _(c):
    for padding in (0, 1, [1, 0], [0, 1, 1, 0], "SAME"):
        for ceil_mode in (False, True):
            for exclusive in (True, False):
                c(normal(2, 1, 7, 6), 2, padding=padding, ceil_mode=ceil_mode, exclusive=exclusive, divisor_override=5)
                c(normal(1, 2, 7, 6), [3, 2], [2, 3], padding=padding, ceil_mode=ceil_mode, exclusive=exclusive)
    c(normal(1, 7, 6, 2), 3, 2, padding=1, ceil_mode=True, divisor_override=2.5, data_format="NHWC")
    c(normal(1, 1, 4, 4, dtype="float64"), 2, 3, ceil_mode=True, divisor_override=1)


@cases(f"{F}.avg_pool3d")
def _(c):
    for padding in (0, 1, [1, 0, 1]):
        for ceil_mode in (False, True):
            for exclusive in (True, False):
                c(normal(1, 1, 5, 5, 4), 2, padding=padding, ceil_mode=ceil_mode, exclusive=exclusive, divisor_override=5)
    c(normal(1, 5, 4, 5, 2), 2, 3, padding=1, ceil_mode=True, divisor_override=3, data_format="NDHWC")


@cases(f"{F}.pad")
def _(c):
    for mode in ("reflect", "replicate", "circular", "constant"):
        for widths in ([-1, 0, 1, 2], [-1, -2, 0, -1], [2, -1, -3, 3], [-2, 3, 0, 0]):
            c(normal(1, 2, 5, 4), widths, mode)
        c(normal(1, 2, 5), [-2, 3], mode)
        c(normal(1, 5, 2), [3, -1], mode, data_format="NLC")
        c(normal(1, 5, 4, 2), [1, -1, -2, 0], mode, data_format="NHWC")
        c(normal(1, 1, 4, 3, 5), [-1, 1, 2, -1, 0, -2], mode)
    for widths in ([1, 2], [1, 2, 2, 0, 1, 1], [1, 0, 2, 1, 0, 3, 1, 1], (1, 2)):
        for layout in ("NHWC", "NCHW", None):
            c(normal(2, 3, 4, 2), widths, data_format=layout)
    c(normal(2, 3, 4, 2), [1, 0, 2, 1, 0, 3, 1, 1], pad_from_left_axis=False, data_format="NHWC")
    c(normal(2, 3, 4), [1, 0, 2, 1], value=1.5)
    c(normal(2, 3), [1, 2])
    c(normal(2, 3), [1, 2, 0, 3], pad_from_left_axis=False)


@cases("paddle.nn.AvgPool2D")
def _(c):
    c.layer(2, ceil_mode=True, divisor_override=5)(normal(1, 1, 7, 6))


@cases("paddle.nn.AvgPool3D")
def _(c):
    c.layer(2, ceil_mode=True, padding=1, divisor_override=5)(normal(1, 1, 5, 5, 5))


@check("paddle.pow")
def complex_zero_and_infinity_have_powers(paddle, np, rng):
    """Real and imaginary parts on their own: an infinity beside a nan is not any nan."""
    found = {}
    for dtype in ("complex64", "complex128"):
        x = paddle.to_tensor(np.array([0j, 1 + 1j, -2 + 0.5j, complex("inf")], dtype))
        for number in (-1, -2.5, -3.0, 0.5, 1.0, 2, 3, -1 + 1j, 1j, 1 + 1j):
            if number != 1:  # of an infinity the first power is no other number here
                power = x ** paddle.to_tensor(np.full(4, number, dtype))
                found[f"{dtype} {number}"] = [power.real(), power.imag()]
            if not isinstance(number, complex):
                again = paddle.pow(x, number)
                found[f"{dtype} number {number}"] = [again.real(), again.imag()]
        found[f"{dtype} 0"] = paddle.pow(x, 0)
    return found


@check("paddle.Tensor.backward", "paddle.grad")
def a_gradient_of_another_dtype_is_cast_to_that_of_the_tensor(paddle, np, rng):
    found = {}
    for dtype in ("float32", "float64"):
        for other in ("float32", "float64", "float16", "int32"):
            for name, function in {
                "product": lambda x: x * x,
                "sum": lambda x: x.sum(),
                "matmul": lambda x: x.reshape([1, 2]) @ x.reshape([2, 1]),
            }.items():
                x = paddle.to_tensor([1.0, 2.0], dtype=dtype, stop_gradient=False)
                y = function(x)
                start = paddle.full(y.shape, 3, dtype="float32").astype(other)
                y.backward(start, retain_graph=True)
                (again,) = paddle.grad(y, x, start)
                found[f"{name} of {dtype} from {other}"] = [x.grad.dtype, x.grad, again.dtype, again]
    return found


@check("paddle.autograd.PyLayer")
def an_argument_that_is_returned_becomes_the_result(paddle, np, rng):
    def layer(writes, several):
        class Ten(paddle.autograd.PyLayer):
            @staticmethod
            def forward(ctx, x, w):
                if writes:
                    x.scale_(2.0)
                ctx.save_for_backward(x)
                return (x, x * 3) if several else x

            @staticmethod
            def backward(ctx, *grads):
                (x,) = ctx.saved_tensor()
                return grads[0] * 10 * x, grads[-1] * 7

        return Ten

    found = {}
    for writes in (True, False):
        for several in (True, False):
            a, w = (paddle.to_tensor(v, stop_gradient=False) for v in ([1.0, 2.0], [3.0, 4.0]))
            b = a * 1
            made = layer(writes, several).apply(b, w)
            first, *others = made if several else [made]
            sum([first + b, *others]).sum().backward()
            found[f"{writes} {several}"] = [first is b, first, a.grad.numpy(), w.grad.numpy(), b.is_leaf]
    unneeded = paddle.to_tensor([1.0, 2.0])
    found["no gradients"] = layer(True, False).apply(unneeded, paddle.to_tensor([3.0, 4.0])) is unneeded
    leaf, w = (paddle.to_tensor(v, stop_gradient=False) for v in ([1.0, 2.0], [3.0, 4.0]))
    found["leaf"] = caught(lambda: layer(True, False).apply(leaf, w))
    return found


@check("paddle.Tensor.backward", "paddle.Tensor.clear_grad", "paddle.Tensor.grad")
def a_gradient_that_is_kept_follows_until_it_is_cleared(paddle, np, rng):
    found = {}

    def told(what, x, kept):
        found[what] = [x.grad.numpy(), kept.numpy(), x.grad.stop_gradient, x.grad.is_leaf]

    def leaf():
        return paddle.to_tensor([1.0, 2.0], stop_gradient=False)

    x = leaf()
    (x * x).sum().backward()
    kept, detached, copied = x.grad, x.grad.detach(), x.grad.clone()
    (x * x).sum().backward()
    told("twice", x, kept)
    found["others"] = [detached, copied]
    x.clear_grad()
    told("cleared", x, kept)
    between = x.grad
    (x * x).sum().backward()
    told("after it", x, kept)
    (x * x).sum().backward()
    told("after it twice", x, between)

    x, own = leaf(), paddle.to_tensor([5.0, 5.0])
    x.grad = own
    (x * x).sum().backward()
    told("one that was set", x, own)
    x.clear_grad()
    told("one that was set, cleared", x, own)

    x, start = leaf(), paddle.to_tensor([1.0, 1.0])
    y = leaf()
    (x + y).backward(start)
    (x * 2).sum().backward()
    found["shared"] = [x.grad.numpy(), y.grad.numpy(), start]

    parameter = paddle.create_parameter([2], "float32")
    sgd = paddle.optimizer.SGD(0.5, parameters=[parameter])
    (parameter * 3).sum().backward()
    kept = parameter.grad
    sgd.step()
    sgd.clear_grad()
    told("by an optimizer", parameter, kept)
    return found
