"""Programs that write to tensors, and look at them: arguments and their views, tensors outside, slices, masks, values, shapes, dtypes."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

import polyreme as paddle
from polyreme import nn
from polyreme.nn import functional as F
from polyreme.static import InputSpec
from tests.frontend.capture_programs.driver import Run, program, three


def plain_three(p: Run, function: Any) -> None:
    """Calls with tensors that need no gradients."""
    for rows in (2, 2, 4):
        p.call(function, p.t(rows, 3))


@program()
def an_argument_is_added_to_in_place(p: Run) -> None:
    @p.static
    def function(x: Any) -> Any:
        x.add_(paddle.ones([3]))
        return x * 2

    plain_three(p, function)


@program()
def in_place_methods_of_many_kinds(p: Run) -> None:
    @p.static
    def function(x: Any) -> Any:
        x.scale_(2.0)
        x.clip_(-1.0, 1.0)
        x.tanh_()
        x.subtract_(paddle.ones([3]))
        x.multiply_(x)
        return x.exp_()

    plain_three(p, function)


@program()
def operators_that_look_like_in_place(p: Run) -> None:
    @p.static
    def function(x: Any, w: Any) -> Any:
        x += 1
        x *= w
        x -= w
        return x

    for rows in (2, 2, 4):
        p.call(function, p.t(rows, 3), p.t(3))
    p.call(function, p.t(2, 3), p.g(3))


@program()
def slices_rows_and_masks_are_set(p: Run) -> None:
    @p.static
    def function(x: Any) -> Any:
        x[0] = 0.0
        x[:, 1] = x[:, 0] + 5
        x[1:, ::2] = 7.0
        x[x > 6] = -1.0
        x[..., -1] = paddle.ones([x.shape[0]])
        return x.sum()

    plain_three(p, function)


@program()
def an_intermediate_is_written_by_slices(p: Run) -> None:
    @p.static
    def function(x: Any) -> Any:
        y = x * 2
        y[0] = x[1]
        y[:, 0] = 0.0
        z = paddle.zeros_like(x)
        z[1:] = y[1:] * 3
        return y, z

    three(p, function)


@program(whole=False)
def views_of_an_argument_are_written(p: Run) -> None:
    @p.static
    def function(x: Any) -> Any:
        x[0].zero_()
        x.reshape([-1])[1:3].fill_(9.0)
        x.T[2].scale_(2.0)
        return x + 1

    plain_three(p, function)


@program()
def views_of_an_intermediate_are_written(p: Run) -> None:
    @p.static
    def function(x: Any) -> Any:
        y = x * 1
        y[0].zero_()
        y.reshape([-1])[2:4].add_(paddle.ones([2]))
        y.unsqueeze(0).squeeze(0).transpose([1, 0])[1].fill_(3.0)
        return y

    plain_three(p, function)


@program(whole=False)
def a_view_that_was_given_is_written(p: Run) -> None:
    base = p.t(4, 3)

    @p.static
    def function(x: Any) -> Any:
        x.add_(paddle.ones([3]))
        return x * 2

    p.watch(base)
    p.call(function, base[0])
    p.call(function, base[1])
    p.call(function, base[1:3])


@program(whole=False)
def overlapping_views_are_given(p: Run) -> None:
    base = p.t(4, 3)

    @p.static
    def function(x: Any, y: Any) -> Any:
        x.add_(paddle.ones([3]))
        return y * 2

    p.watch(base)
    p.call(function, base[0:2], base[1:3])
    p.call(function, base[2:4], base[0:2])
    p.call(function, base, base[1])
    p.call(function, p.t(2, 3), p.t(2, 3))


@program(whole=False)
def one_tensor_given_twice_is_written(p: Run) -> None:
    @p.static
    def function(x: Any, y: Any) -> Any:
        x.add_(paddle.ones([3]))
        return x * y

    x = p.t(2, 3)
    p.call(function, x, x)
    p.call(function, x, p.t(2, 3))
    x = p.t(4, 3)
    p.call(function, x, x)


@program()
def one_tensor_given_twice_is_read(p: Run) -> None:
    @p.static
    def function(x: Any, y: Any) -> Any:
        return x * y + x

    x = p.g(2, 3)
    p.call(function, x, x)
    p.call(function, x, p.g(2, 3))
    x = p.g(4, 3)
    p.call(function, x, y=x)


@program(whole=False)
def one_list_given_twice_is_written(p: Run) -> None:
    @p.static
    def function(x: Any, a: Any, b: Any) -> Any:
        a.append(x * 2)
        return x * len(b)

    for rows in (2, 2, 4):
        p.call(function, p.t(rows, 3), [], [])
        held: list[Any] = []
        p.call(function, p.t(rows, 3), held, held)


@program(whole=False)
def a_list_given_is_also_closed_over(p: Run) -> None:
    held: list[Any] = []

    @p.static
    def function(x: Any, a: Any) -> Any:
        a.append(1)
        return x * (1 + len(held))

    p.watch(held)
    for rows in (2, 2, 4):
        p.call(function, p.t(rows, 3), [])
        p.call(function, p.t(rows, 3), held)


@program(whole=False)
def a_dict_given_holds_another_that_is_given(p: Run) -> None:
    @p.static
    def function(x: Any, a: Any, b: Any) -> Any:
        a["inner"]["n"] = 5
        return x * b["n"]

    for rows in (2, 2, 4):
        inner = {"n": 2}
        p.call(function, p.t(rows, 3), {"inner": {"n": 1}}, inner)
        p.call(function, p.t(rows, 3), {"inner": inner}, inner)


@program(whole=False)
def a_tensor_given_is_also_closed_over(p: Run) -> None:
    w = p.t(2, 3)

    @p.static
    def function(x: Any) -> Any:
        x.add_(paddle.ones([3]))
        return x + w

    p.watch(w)
    p.call(function, p.t(2, 3))
    p.call(function, w)
    p.call(function, p.t(2, 3))


@program(whole=False)
def a_parameter_given_is_also_read_from_the_layer(p: Run) -> None:
    layer = nn.Linear(3, 3)

    @p.static
    def function(x: Any, w: Any) -> Any:
        w.add_(paddle.ones([3]))
        return layer(x)

    p.watch(layer)
    with paddle.no_grad():
        p.call(function, p.t(2, 3), p.t(3, 3))
        p.call(function, p.t(2, 3), layer.weight)
        p.call(function, p.t(4, 3), p.t(3, 3))
        p.call(function, p.t(2, 3), layer.weight)


@program(whole=False)
def views_of_a_tensor_outside_are_given(p: Run) -> None:
    w = p.t(4, 3)

    @p.static
    def function(x: Any) -> Any:
        x.fill_(2.0)
        return w * 1

    p.watch(w)
    p.call(function, p.t(3))
    p.call(function, w[0])
    p.call(function, w[1:3])


@program()
def a_tensor_outside_is_written(p: Run) -> None:
    w = p.t(3)
    held = SimpleNamespace(steps=paddle.zeros([1]), table=[p.t(3)])

    @p.static
    def function(x: Any) -> Any:
        w.add_(x.sum(0))
        held.steps += 1
        held.table[0][1:] = 4.0
        return x * w + held.steps + held.table[0]

    p.watch(w, held)
    plain_three(p, function)


@program()
def a_tensor_outside_is_written_with_gradients_elsewhere(p: Run) -> None:
    w = p.t(3)

    @p.static
    def function(x: Any) -> Any:
        with paddle.no_grad():
            w.set_value(w * 0.5 + x.mean(0))
        return x * w

    p.watch(w)
    three(p, function)


@program(whole=False)
def views_of_a_tensor_outside_are_written(p: Run) -> None:
    w = p.t(2, 3)
    row = w[0]

    @p.static
    def function(x: Any) -> Any:
        w[1].add_(x.sum(0))
        row.scale_(2.0)
        return x * w.sum(0)

    p.watch(w, row)
    plain_three(p, function)


@program(whole=False)
def a_weight_is_zeroed_through_a_view(p: Run) -> None:
    layer = nn.Embedding(4, 3)

    @p.static
    def function(ids: Any) -> Any:
        with paddle.no_grad():
            layer.weight[0].zero_()
        return layer(ids)

    p.watch(layer)
    for rows in (2, 2, 4):
        p.call(function, p.t(rows, dtype="int64"))


@program(whole=False)
def results_that_are_arguments_and_views(p: Run) -> None:
    @p.static
    def function(x: Any) -> Any:
        return x, x[0], x.reshape([-1]), x.detach(), x.T

    for rows in (2, 2, 4):
        x = p.t(rows, 3)
        result = p.call(function, x)
        result[1].fill_(5.0)
        p.note((x, result))
        result[2][0] = 6.0
        p.note((x, result))
        x.add_(paddle.ones([3]))
        p.note((x, result))


@program(whole=False)
def results_that_share_contents(p: Run) -> None:
    @p.static
    def function(x: Any) -> Any:
        y = x * 2
        return y, y[0], y.reshape([-1]), y

    for rows in (2, 2, 4):
        result = p.call(function, p.t(rows, 3))
        result[1].fill_(5.0)
        p.note(result)
        result[2][-1] = 6.0
        p.note(result)


@program(whole=False)
def a_view_is_kept_outside(p: Run) -> None:
    held: dict[str, Any] = {}

    @p.static
    def function(x: Any) -> Any:
        y = x * 2
        held["row"] = y[0]
        held["x"] = x[1]
        return y

    p.watch(held)
    for rows in (2, 2, 4):
        x = p.t(rows, 3)
        y = p.call(function, x)
        held["row"].zero_()
        held["x"].zero_()
        p.note((x, y, held))


@program()
def an_argument_itself_is_returned_and_kept(p: Run) -> None:
    held: list[Any] = []

    @p.static
    def function(x: Any, y: Any) -> Any:
        held.append(y)
        return {"x": x, "sum": x + y}

    p.watch(held)
    for rows in (2, 2, 4):
        p.call(function, p.g(rows, 3), p.g(rows, 3))


@program()
def a_tensor_outside_is_returned(p: Run) -> None:
    w = p.g(3)
    layer = nn.Linear(3, 2)

    @p.static
    def function(x: Any) -> Any:
        return w, layer.weight, x * w

    p.watch(w, layer)
    three(p, function)


@program()
def identity_of_clones_and_casts(p: Run) -> None:
    @p.static
    def function(x: Any) -> Any:
        return x.clone(), x.astype("float32"), x.astype("float64"), paddle.assign(x), F.dropout(x, 0.5, training=False), F.dropout(x, 0.0)

    three(p, function)


@program(whole=False)
def values_are_read_by_numpy_and_item(p: Run) -> None:
    @p.static
    def function(x: Any) -> Any:
        peak = float(x.max())
        values = x.numpy().sum()
        first = x[0, 0].item()
        return x * peak + float(values), first, x.tolist()[0][0], int(x.argmax())

    for rows in (2, 2, 4):
        p.call(function, p.t(rows, 3))


@program(whole=False)
def values_decide_in_python(p: Run) -> None:
    @p.static
    def function(x: Any) -> Any:
        n = int((x > 0).sum().item())
        out = [x[i] * i for i in range(n % 3)]
        return out, n

    for rows in (2, 2, 4):
        p.call(function, p.t(rows, 3))


@program()
def shapes_are_computed_with(p: Run) -> None:
    @p.static
    def function(x: Any) -> Any:
        rows, columns = x.shape
        y = x.reshape([columns, rows]).unsqueeze(1).expand([columns, 2, rows])
        return y.flatten(), paddle.shape(x), x.numel(), x.size, x.ndim, x.dim(), len(x), list(x.shape), rows // 2, x.shape == [2, 3]

    three(p, function)


@program()
def dtypes_change_between_calls(p: Run) -> None:
    @p.static
    def function(x: Any) -> Any:
        return (x * 2).astype("float32") if x.dtype != paddle.float32 else x / 2

    for dtype in ("float32", "float64", "int64", "int32", "float32"):
        p.call(function, p.t(2, 3, dtype=dtype))
    p.call(function, p.t(4, 3, dtype="bool"))


@program()
def tensors_without_axes_and_without_elements(p: Run) -> None:
    @p.static
    def function(x: Any) -> Any:
        return x * 2 + 1, x.sum(), paddle.concat([x.flatten(), x.flatten()])

    for shape in ((), (), (0,), (0, 3), (1,), (2, 3)):
        p.call(function, p.g(*shape))


@program()
def an_array_or_a_number_is_given(p: Run) -> None:
    @p.static
    def function(x: Any, k: Any = 1) -> Any:
        return paddle.to_tensor(x) * k if not isinstance(x, paddle.Tensor) else x + k

    for k in (1, 2.0, True, 3):
        p.call(function, p.t(2, 3), k)
    p.call(function, p.t(4, 3))


@program(whole=False)
def an_array_that_is_given_is_written(p: Run) -> None:
    @p.static
    def function(x: Any, array: Any) -> Any:
        array[0] = array[0] * 2
        return x + array[0]

    given = np.array([1.0, 2.0], dtype="float32")
    for rows in (2, 2, 3, 3):
        p.call(function, p.t(rows, 3), given)
        p.call(lambda: paddle.to_tensor(given))


@program(whole=False)
def an_array_that_is_given_is_written_between_parts(p: Run) -> None:
    @p.static
    def function(x: Any, array: Any, other: Any = None) -> Any:
        array[0] = x[0]
        y = x * float(array[0])
        array[1] = array[0] + array[1]
        return y if other is None else y + float(other[1])

    given = np.array([1.0, 2.0], dtype="float32")
    for _ in range(4):
        p.call(function, p.t(3), given)
        p.call(function, p.t(3), given, other=given)
        p.call(lambda: paddle.to_tensor(given))


@program()
def tensors_are_made_of_python_numbers(p: Run) -> None:
    held = {"bias": [1.0, 2.0, 3.0]}

    @p.static
    def function(x: Any) -> Any:
        bias = paddle.to_tensor(held["bias"], dtype=x.dtype)
        mask = paddle.full_like(x, 2.0) + paddle.arange(3, dtype="float32") + paddle.eye(x.shape[0], 3)
        return x * mask + bias, paddle.linspace(0, 1, 3), paddle.tril(paddle.ones([3, 3]))

    three(p, function)
    held["bias"][0] = 9.0
    three(p, function)


@program(whole=False)
def tensors_are_made_of_tensors(p: Run) -> None:
    @p.static
    def function(x: Any) -> Any:
        y = paddle.to_tensor([float(x.sum()), 2.0])
        return y * 2, paddle.to_tensor(x)

    plain_three(p, function)


@program()
def indices_of_tensors_and_lists(p: Run) -> None:
    index = paddle.to_tensor([1, 0])

    @p.static
    def function(x: Any, i: Any) -> Any:
        return (
            x[index],
            x[[0, 1]],
            x[:, i],
            paddle.gather(x, i),
            x[i, i],
            paddle.index_select(x, i, axis=1),
            x[None, ..., 0] * 1,
            x[:, -1:] * 1,
        )

    for rows in (2, 2, 4):
        p.call(function, p.g(rows, 3), paddle.to_tensor([0, 1]))
    index[0] = 0
    p.call(function, p.g(2, 3), paddle.to_tensor([1, 1]))


@program(whole=False)
def sizes_that_depend_on_values(p: Run) -> None:
    @p.static
    def function(x: Any) -> Any:
        kept = x[x > 0]
        return kept, paddle.nonzero(x > 0), paddle.masked_select(x, x < 0), paddle.unique(paddle.round(x))

    plain_three(p, function)


@program()
def splits_stacks_and_loops_over_rows(p: Run) -> None:
    @p.static
    def function(x: Any) -> Any:
        a, b, c = paddle.split(x, 3, axis=1)
        rows = [row * i for i, row in enumerate(x)]
        first, *rest = paddle.unbind(x, axis=0)
        return paddle.concat([c, b, a], axis=1), paddle.stack(rows), first + sum(rest), paddle.chunk(x, 3, axis=1)[1]

    three(p, function)


@program()
def bfloat16_and_complex(p: Run) -> None:
    @p.static
    def function(x: Any) -> Any:
        return x * x + 2.0 * x

    for dtype in ("bfloat16", "complex64", "float64"):
        for rows in (2, 4):
            p.call(function, p.g(rows, 3, dtype=dtype))


@program()
def parts_of_complex_numbers(p: Run) -> None:
    @p.static
    def function(x: Any) -> Any:
        return x.abs(), paddle.angle(x), x.real() * x.imag(), x.conj() * x

    for rows in (2, 2, 4):
        p.call(function, p.g(rows, 3, dtype="complex64"))


@program()
def casts_to_half_and_back(p: Run) -> None:
    layer = nn.Linear(3, 3)

    @p.static
    def function(x: Any) -> Any:
        return layer(x).sum() + x.astype("bfloat16").astype("float32").mean()

    p.watch(layer)
    three(p, function)


@program()
def stop_gradient_of_results(p: Run) -> None:
    w = p.g(3)

    @p.static
    def function(x: Any) -> Any:
        y = x * w
        z = x * 2
        y.stop_gradient = True
        fixed = paddle.ones([3]) * 2
        return y, z, fixed, (z * 2).detach(), x > 0

    p.watch(w)
    three(p, function)


@program(whole=False)
def a_result_and_its_detached_form(p: Run) -> None:
    held: dict[str, Any] = {}

    @p.static
    def function(x: Any) -> Any:
        y = x * 2
        held["last"] = y.detach()
        return y

    p.watch(held)
    for rows in (2, 2, 4):
        p.call(function, p.g(rows, 3))
        held["last"].zero_()
        p.note(held)


@program(whole=False)
def a_constant_that_gets_gradients(p: Run) -> None:
    @p.static
    def function(x: Any) -> Any:
        loose = paddle.ones([3])
        loose.stop_gradient = False
        return loose, loose * 2, paddle.to_tensor([1.0, 2.0], stop_gradient=False)

    plain_three(p, function)


@program(whole=False)
def a_tensor_made_with_gradients(p: Run) -> None:
    @p.static
    def function(x: Any) -> Any:
        made = paddle.to_tensor([1.0, 2.0, 3.0], stop_gradient=False)
        return made * x, made

    plain_three(p, function)


@program(whole=False)
def it_is_asked_whether_two_are_the_same(p: Run) -> None:
    w = p.t(2, 3)

    @p.static
    def function(x: Any, y: Any) -> Any:
        return x * 2 if x is y else x * 3 if y is not w else x * 4

    x, y = p.t(2, 3), p.t(2, 3)
    for pair in ((x, y), (x, x), (x, w), (w, w), (w, x)):
        p.call(function, *pair)
    p.call(function, p.t(4, 3), p.t(4, 3))


@program(whole=False)
def stop_gradient_of_an_argument_is_set(p: Run) -> None:
    @p.static
    def function(x: Any) -> Any:
        x.stop_gradient = False
        return x * 2

    plain_three(p, function)


@program(whole=False)
def names_and_addresses_of_tensors(p: Run) -> None:
    @p.static
    def function(x: Any) -> Any:
        x.name = "renamed"
        return x * len(x.name)

    plain_three(p, function)


@program(whole=False)
def an_attribute_is_put_on_a_tensor(p: Run) -> None:
    @p.static
    def function(x: Any) -> Any:
        y = x * 2
        y.label = "mine"
        return y

    for rows in (2, 2, 4):
        p.note(p.call(function, p.t(rows, 3)).label)


@program(whole=False)
def an_attribute_on_a_tensor_is_read(p: Run) -> None:
    w = p.t(3)
    w.scale_by = 2.0

    @p.static
    def function(x: Any) -> Any:
        return x * w * w.scale_by

    plain_three(p, function)
    w.scale_by = 3.0
    plain_three(p, function)


@program()
def specs_with_names_and_fixed_dtypes(p: Run) -> None:
    @p.static(input_spec=[InputSpec([None, 3], "float32", "x"), InputSpec([3], "float32", "w")])
    def function(x: Any, w: Any, scale: float = 2.0) -> Any:
        return paddle.matmul(x, w) * scale

    p.call(function, p.g(2, 3), p.g(3))
    p.call(function, p.t(4, 3), p.g(3))
    p.call(function, p.g(2, 3), p.t(3), scale=3.0)


@program()
def an_update_under_no_grad_of_a_parameter(p: Run) -> None:
    layer = nn.Linear(3, 2)

    @p.static
    def function(x: Any) -> Any:
        with paddle.no_grad():
            layer.weight.add_(paddle.full([3, 2], 0.5))
            layer.bias[0] = 1.0
        return layer(x)

    p.watch(layer)
    three(p, function)


@program()
def numpy_constants_are_mixed_in(p: Run) -> None:
    table = np.arange(3, dtype="float32")

    @p.static
    def function(x: Any) -> Any:
        scale = np.sqrt(np.prod([2, 8]))
        weights = np.array([[1.0, 2.0, 3.0]], dtype="float32") * table
        return x * float(scale) + paddle.to_tensor(weights)

    three(p, function)
    table[2] = 7.0
    three(p, function)


@program(whole=False)
def a_random_in_place_method(p: Run) -> None:
    @p.static
    def function(x: Any) -> Any:
        y = x * 0
        y.uniform_(0.0, 1.0)
        x.normal_()
        return y

    plain_three(p, function)
    p.note(paddle.rand([2]))


@program(whole=False)
def a_view_of_what_is_written_is_replaced(p: Run) -> None:
    base = p.t(4, 4)
    views, table, held, cell = [base[0]], {"v": base[0]}, SimpleNamespace(v=base[0]), base[0]

    def by_element(x: Any) -> Any:
        base[0] = 5.0
        return (views[0] * x).sum()

    def by_key(x: Any) -> Any:
        base[0] = 5.0
        return (table["v"] * x).sum()

    def by_attribute(x: Any) -> Any:
        base[0] = 5.0
        return (held.v * x).sum()

    def by_cell(x: Any) -> Any:
        base[0] = 5.0
        return (cell * x).sum()

    for function in map(p.static, (by_element, by_key, by_attribute, by_cell)):
        for new in (base[0], p.t(4), p.t(2, 4)[1], base[1], base[0], base.clone()[1]):
            views[0] = table["v"] = held.v = cell = new
            p.call(function, p.g(4))


@program()
def a_branch_writes_what_no_gradient_needs(p: Run) -> None:
    kept, layer = p.t(4), paddle.nn.Linear(4, 4)

    @p.static
    def function(x: Any) -> Any:
        if layer.bias.sum() > 0.3:
            y = x * 0.5
        else:
            kept[0].fill_(0.25)
            kept[kept > 0.3] += 0.5
            y = x * 0.5
        return y, y

    p.watch(kept)
    for rows in (2, 2, 3):
        p.call(function, p.g(rows, 4))


@program(whole=True)
def complex_numbers_among_reals(p: Run) -> None:
    @p.static
    def function(x: Any) -> Any:
        made = (1 + 2j) / (x * 1j + 2) - x * (1 + 0j)
        made[0] = 3j
        return made, paddle.full([2], 1 - 2j, dtype="complex64") * x[0, 0], made.abs()

    three(p, function)


@program()
def positions_are_looked_at(p: Run) -> None:
    table, log = p.t(4, 3), []

    def one(x: Any, place: Any) -> Any:
        log.append("one")
        return x[place] * 2, x[0, place] + 1

    def gathered(x: Any, place: Any) -> Any:
        return paddle.gather(x, place.reshape([1])) + x[place.reshape([1])], paddle.take_along_axis(x, place.reshape([1, 1]), 0)

    def embedded(x: Any, place: Any) -> Any:
        return F.embedding((place - 1).reshape([1]), table) + x[0], F.one_hot(place.reshape([1]), 3)

    def written(x: Any, place: Any) -> Any:
        y = paddle.scatter(x * 2, place.reshape([1]), x[:1])
        log.append("written")
        return paddle.index_add(y, place.reshape([1]), 0, x[:1])

    p.watch(log)
    for function in map(p.static, (one, gathered, embedded, written)):
        for rows in (4, 4, 5):
            for place in (1, 2, 3, 4, -3, -6, 9):
                p.call(function, p.g(rows, 3), paddle.to_tensor(place))


@program(whole=False)
def positions_of_sizes_that_change(p: Run) -> None:
    @p.static
    def function(x: Any, places: Any) -> Any:
        return paddle.gather(x, places).sum(0)

    for rows, places in ((3, [0, 2]), (4, [0, 3, -4]), (6, [5, 5]), (5, [5, 1]), (4, [-5, 0, 0]), (7, [1, 2])):
        p.call(function, p.g(rows, 3), paddle.to_tensor(places))


@program(whole=False)
def arguments_do_not_lie_row_by_row(p: Run) -> None:
    @p.static
    def written(x: Any) -> Any:
        row = x.reshape([-1])
        row[0] = 50.0
        return row * 2

    @p.static
    def looked_through(x: Any) -> Any:
        row = x.reshape([-1])
        x.add_(x)
        return row.sum()

    @p.static
    def given_back(x: Any) -> Any:
        return x.reshape([-1]), x.flatten()

    @p.static
    def asked(x: Any) -> Any:
        return x.strides, x.is_contiguous(), x.T.is_contiguous(), x.contiguous() is x, x * 2

    for function in (written, looked_through, given_back, asked):
        for make in (lambda: p.t(2, 3), lambda: p.t(3, 2).T, lambda: p.t(4, 3)[::2], lambda: p.t(2, 3)):
            x = make()
            result = p.call(function, x)
            if function is given_back:
                result[0][1] = 9.0
                p.note((x, result))


@program()
def an_argument_that_does_not_lie_row_by_row_is_read(p: Run) -> None:
    @p.static
    def function(x: Any) -> Any:
        return x.unsqueeze(0), x.reshape([-1]).sum()

    for x in (p.t(2, 3), p.t(3, 2).T, p.t(4, 3)[::2], p.t(3, 2).T):
        result = p.call(function, x)
        result[0][0, 0] = 9.0
        p.note((x, result))


@program()
def a_tensor_outside_comes_to_lie_otherwise(p: Run) -> None:
    held = [p.t(3, 2).T]

    @p.static
    def function(x: Any) -> Any:
        row = held[0].reshape([-1])
        row.add_(paddle.ones([6]))
        return row + x

    p.watch(held)
    for following in (p.t(2, 3), p.t(3, 2).T, p.t(2, 3)):
        p.call(function, p.t(6))
        held[0] = following
    p.call(function, p.t(6))


@program(whole=False)
def values_that_a_loss_checks(p: Run) -> None:
    log: list[Any] = []
    kind = nn.TripletMarginWithDistanceLoss(lambda a, b: (a - b).sum(-1))

    @p.static
    def function(x: Any, variance: Any, labels: Any) -> Any:
        log.append(1)
        first = F.gaussian_nll_loss(x, x * 2, variance, full=True)
        return first + F.multi_margin_loss(x, labels, 2), kind(x + 1, x, x * 0.5 - 1)

    p.watch(log)
    for least, label in ((0.5, 1), (0.0, 0), (-1.0, 1), (0.5, 3), (2.0, 2)):
        p.call(function, paddle.abs(p.t(2, 3)).detach(), paddle.full([2, 1], least), paddle.to_tensor([label, 0]))
