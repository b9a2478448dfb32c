"""Views share contents with the tensor that they were made of: which functions give views, what a write to either does, and what gradients
make of it.
"""

from __future__ import annotations

import copy
import gc
import pickle
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import polyreme as paddle
from tests.frontend.view_programs import FIRST, apply, first, random_program, run


def numbers(*shape, stop_gradient=True):
    return paddle.to_tensor(np.arange(np.prod(shape), dtype=np.float32).reshape(shape) + 1, stop_gradient=stop_gradient)


# --- which functions give views: as PaddlePaddle 3.3.1 has it, found by writing to the result and looking at x, and the other way round

ITSELF = [
    "x.cpu()",
    "+x",
    "x[0, 0].t() if x.ndim < 2 else x",
    "paddle.nn.Identity()(x)",
    "paddle.nn.functional.dropout(x, 0.0)",
    "x.fill_(5.0)",
    "x.contiguous()",
]

VIEWS = """
x[0]; x[-1]; x[:, 1:3]; x[1, :, 1]; x[:, ::2]; x[:, ::-1]; x[:, 2:0:-1]; x[None]; x[:, None, 1]; x[..., 0]; x[:]; x[...]; x[0, 1, 2]
x[paddle.to_tensor(1)]; x[paddle.to_tensor(0):paddle.to_tensor(1)]; next(iter(x)); x.reshape([6, 4]); x.reshape([0, -1])
paddle.reshape(x, [-1]); x.view([6, 4]); x.view_as(paddle.zeros([6, 4])); x.flatten(); x.flatten(1); paddle.nn.Flatten()(x)
x.transpose([2, 0, 1]); x.transpose([0, 1, 2]); x.T; x.mT; x[0].t(); x.moveaxis(0, 2); x.squeeze(); x.squeeze(1); x[:1].squeeze(0)
x.unsqueeze(1); x.unsqueeze([0, 2]); x.T.unsqueeze(0); x.unsqueeze(0).transpose([3, 2, 1, 0]).squeeze(-1); x.detach(); x.data
paddle.Tensor(x); paddle.slice(x, [1], [0], [2]); paddle.strided_slice(x, [1], [0], [3], [2]); paddle.unbind(x, 1)[1]; x[:1].reshape([-1])
x[:, 1:].reshape([2, 8]); x[0].contiguous(); paddle.flatten(x[0, 0]); paddle.unsqueeze(x[0, 0, 0], 0)
paddle.nn.functional.dropout2d(x.unsqueeze(0), 0.5, training=False)
"""

COPIES = """
x[paddle.to_tensor([1])]; x[[0, 1]]; x[x > 3]; x[paddle.to_tensor([True, False])]; x[0, [0, 1]]; x.clone(); paddle.assign(x)
paddle.to_tensor(x); paddle.to_tensor(x.numpy()); paddle.cast(x, "float32"); x.T.contiguous(); paddle.diag(x[0, :, :3])
x.transpose([2, 0, 1]).reshape([-1]); x[:, 1].reshape([-1]); x.T.flatten(); x[0, 0, 0].flatten(); x[0, 0, 0].reshape([1, 1])
paddle.crop(x, [1, 2, 2], [0, 0, 0]); paddle.split(x, 2)[0]; x.split([1, 1])[1]; x.chunk(2)[0]; paddle.unstack(x, 0)[0]
x.unsqueeze(0).expand([2, 2, 3, 4]); x.expand([2, 3, 4]); x.expand_as(x); paddle.broadcast_to(x, [2, 3, 4])
paddle.broadcast_tensors([x, x])[0]; x.tile([1, 1, 1]); x.flip(0); x.roll(0); x.roll(1, 0)
paddle.nn.functional.dropout(x, 0.5, training=False); paddle.nn.functional.alpha_dropout(x, 0.0); x.index_select(paddle.to_tensor([0]), 0)
x.gather(paddle.to_tensor([0])); x.masked_select(x > 2); paddle.concat([x]); paddle.stack([x]); paddle.meshgrid(x[0, 0], x[0, 1])[0]
x.repeat_interleave(1); x.tril(2); x.round(); x.nan_to_num(); x.scale(1.0); paddle.einsum("abc->cab", x); paddle.einsum("abc->abc", x)
paddle.nn.functional.pixel_shuffle(x.reshape([1, 4, 2, 3]), 2); paddle.nn.functional.pad(x, [0, 0, 0, 0, 0, 0])
paddle.clip(x, -100.0, 100.0); paddle.where(x > -1, x, x); paddle.add_n([x]); x.cumsum(0); copy.deepcopy(x); copy.copy(x); x.pow(1)
paddle.nn.functional.interpolate(x.unsqueeze(0), size=[3, 4]); paddle.nn.functional.label_smooth(x, epsilon=0.0); paddle.sum(x[:1], axis=0)
paddle.max(x[:1], axis=0); paddle.nn.functional.relu6(x); paddle.nn.functional.unfold(x.reshape([1, 2, 3, 4]), [1, 1])
paddle.scatter(x, paddle.to_tensor([0]), x[:1]); paddle.masked_fill(x, x > 100, 1.0); paddle.sort(x)
"""


def expressions(text):
    return [e.strip() for line in text.strip().splitlines() for e in line.split(";")]


@pytest.mark.parametrize(
    ("expression", "kind"),
    [*((e, "itself") for e in ITSELF), *((e, "view") for e in expressions(VIEWS)), *((e, "copy") for e in expressions(COPIES))],
)
def test_what_is_a_view_is_one_in_paddle(expression, kind):
    def made():
        x = numbers(2, 3, 4)
        return x, eval(expression, {"paddle": paddle, "copy": copy, "x": x})

    x, y = made()
    if kind == "itself":
        assert y is x
        return
    held, got = x.numpy(), y.numpy()
    assert (y.inplace_version == x.inplace_version) or kind == "copy"
    y.fill_(99.0)
    assert np.array_equal(x.numpy(), held) == (kind == "copy")
    x, y = made()
    x.fill_(77.0)
    assert np.array_equal(y.numpy(), got) == (kind == "copy")


# --- writes


def test_random_programs_of_views_and_writes_are_as_on_numpy_arrays():
    @settings(max_examples=150, deadline=None, derandomize=True)
    @given(st.data())
    def check(data):
        steps, expected = random_program(lambda n: data.draw(st.integers(0, n - 1)), 12)
        for step, (seen, wanted) in enumerate(zip(run(paddle, steps), expected, strict=True)):
            for i, (a, b) in enumerate(zip(seen, wanted, strict=True)):
                assert a.shape == b.shape and np.array_equal(a, b), (i, steps[: step + 1])

    check()


@pytest.mark.parametrize("seed", range(60))
def test_long_programs_are_as_on_numpy_arrays(seed):
    steps, expected = random_program(np.random.default_rng(seed).integers, 30)
    for step, (seen, wanted) in enumerate(zip(run(paddle, steps), expected, strict=True)):
        for i, (a, b) in enumerate(zip(seen, wanted, strict=True)):
            assert a.shape == b.shape and np.array_equal(a, b), (i, steps[: step + 1])


@pytest.mark.parametrize("seed", range(12))
def test_traced_programs_are_as_eager_ones(seed):
    steps, _ = random_program(np.random.default_rng(seed + 1000).integers, 14)

    def program(*tensors):
        held = [t * 1 for t in tensors]
        for step in steps:
            apply(paddle, held, *step)
        return held

    given_ = [paddle.to_tensor(first(shape)) for shape in FIRST]
    for a, b in zip(paddle.jit.to_static(program)(*given_), program(*given_), strict=True):
        assert a.shape == b.shape and np.array_equal(a.numpy(), b.numpy()), steps


def _gradients_and_differences(seed):
    """The gradients of a random program, and what finite differences say at a few places; None where the program writes to what its
    gradient needs.
    """
    rng = np.random.default_rng(seed)
    steps, _ = random_program(rng.integers, 10)
    # What is written without the graph has no gradient.
    steps = [] if any(what == "detach" for what, _, _ in steps) else [step for step in steps if step[0] not in ("copy_", "set_value")]

    def loss(arrays):
        tensors = [paddle.to_tensor(a, dtype="float64", stop_gradient=False) for a in arrays]
        held = [t * 1 for t in tensors]
        for step in steps:
            apply(paddle, held, *step)
        total = paddle.to_tensor(0.0, dtype="float64")
        for i, t in enumerate(held):
            total = total + (t * t * (0.01 * (i + 1))).sum()
        return tensors, total

    # Away from the corners of relu_ and of the bounds.
    arrays = [first(shape).astype(np.float64) * 0.3 + 0.123 for shape in FIRST]
    tensors, total = loss(arrays)
    try:
        total.backward()
    except RuntimeError as error:
        assert "has been modified by an inplace operation" in str(error)
        return None
    found, expected = [], []
    for n, array in enumerate(arrays):
        for place in rng.integers(array.size, size=3):
            ends = []
            for sign in (1, -1):
                moved = [a.copy() for a in arrays]
                moved[n].flat[place] += sign * 1e-5
                ends.append(float(loss(moved)[1]))
            expected.append((ends[0] - ends[1]) / 2e-5)
            found.append(0.0 if tensors[n].grad is None else tensors[n].grad.numpy().flat[place])
    return (found, expected, steps) if steps else None


def test_gradients_past_writes_are_those_of_finite_differences():
    compared = 0
    for seed in range(2000, 2060):
        if (made := _gradients_and_differences(seed)) is not None:
            found, expected, steps = made
            assert found == pytest.approx(expected, rel=1e-5, abs=1e-5), steps
            compared += 1
    assert compared > 20


def test_parameters_are_written_through_their_views():
    layer, table = paddle.nn.Linear(2, 2), paddle.nn.Embedding(3, 2)
    layer.weight.detach().fill_(3.0)
    table.weight[0].fill_(0.0)  # no error, as in Paddle, though the weight itself must not be written to
    assert layer.weight.tolist() == [[3, 3], [3, 3]] and table.weight[0].tolist() == [0, 0]
    assert layer(paddle.ones([1, 2])).tolist() == [[6 + layer.bias[i].item() for i in range(2)]]
    with pytest.raises(ValueError, match=r"Leaf Tensor \(.*\) that doesn't stop gradient can't use inplace strategy"):
        table.weight.fill_(0.0)


def test_a_leaf_stays_one_when_it_is_written_through_a_view():
    """Its gradient is that of what it has now; the view has a history of its own. As in Paddle."""
    a = numbers(2, 3, stop_gradient=False)
    v = a[0]
    v.scale_(2.0)
    (a * a).sum().backward()
    assert a.is_leaf and a.grad.tolist() == [[4, 8, 12], [8, 10, 12]]
    a.clear_grad()
    v.sum().backward()
    assert a.grad[0].tolist() == [2, 2, 2]


def test_what_is_written_through_a_view_is_part_of_the_graph():
    a, w = numbers(2, 3, stop_gradient=False), paddle.ones([3])
    w.stop_gradient = False
    b = a * 1
    view, other = b[0], b.T
    view.multiply_(w)
    (other * other).sum().backward()
    assert a.grad.tolist() == [[2, 4, 6], [8, 10, 12]] and w.grad.tolist() == [2, 8, 18]
    buffer = paddle.zeros([2, 3])
    buffer[1].add_(w)
    assert not buffer.stop_gradient and buffer.tolist() == [[0, 0, 0], [1, 1, 1]]


def test_a_write_behind_the_graph_changes_contents_only():
    for write in (
        lambda b: b.detach().fill_(3.0),
        lambda b: _without_grad(lambda: b[:].fill_(3.0)),
        lambda b: _without_grad(lambda: b.flatten()).fill_(3.0),
    ):
        a = numbers(2, 3, stop_gradient=False)
        b = a * 1
        write(b)
        (b * b).sum().backward()
        assert b.tolist() == [[3, 3, 3], [3, 3, 3]] and a.grad.tolist() == [[6, 6, 6], [6, 6, 6]]


def _without_grad(function):
    with paddle.no_grad():
        return function()


def test_what_a_gradient_needs_must_not_have_been_written_to():
    for write in (
        lambda b: b[0].scale_(2.0),
        lambda b: b.detach().fill_(3.0),
        lambda b: b.T[0].zero_(),
        lambda b: _without_grad(lambda: b[0].zero_()),
    ):
        b = numbers(2, 3, stop_gradient=False) * 1
        c = (b * b).sum()
        write(b)
        with pytest.raises(RuntimeError, match="has been modified by an inplace operation. Its version is 1 but the expected version is 0"):
            c.backward()
    b = numbers(2, 3, stop_gradient=False) * 1
    c = b[0] * b[0]
    b.scale_(2.0)
    with pytest.raises(RuntimeError, match="has been modified by an inplace operation"):
        c.sum().backward()


def test_all_that_share_contents_have_one_version():
    x = numbers(2, 3)
    x.add_(x)
    view, detached = x[0], x.detach()
    part = view[1:]
    assert [t.inplace_version for t in (x, view, detached, part)] == [1] * 4
    part.fill_(1.0)
    x[1] = 2.0
    assert [t.inplace_version for t in (x, view, detached, part)] == [3] * 4


@pytest.mark.usefixtures("only_new_garbage")
def test_a_view_outlives_what_it_was_made_of():
    parts = [numbers(4, 3).detach()[1:], (numbers(4, 3) * 1)[1:]]
    for part in parts:
        row = part[0]
        gc.collect()
        row.fill_(0.0)
        assert part.tolist() == [[0, 0, 0], [7, 8, 9], [10, 11, 12]]


def test_a_tensor_may_be_seen_otherwise_in_place():
    x = numbers(2, 3)
    view = x[0]
    x.reshape_([3, 2])
    x.fill_(1.0)
    assert view.tolist() == [1, 1, 1] and x.shape == [3, 2]
    x = numbers(2, 3)
    view = x[0]
    x.transpose_([1, 0])
    x[0].fill_(7.0)
    view.unsqueeze_(0)
    assert view.tolist() == [[7, 2, 3]] and x.tolist() == [[7, 7], [2, 5], [3, 6]]
    with pytest.raises(ValueError):
        x.reshape_([4, 2])
    x.fill_(0.0)
    assert view.tolist() == [[0, 0, 0]]


def test_strides_are_those_of_the_tensor_behind():
    x = numbers(2, 3, 4)
    assert (
        x.T.strides == [1, 4, 12]
        and x[:, ::-2].strides == [12, -8, 1]
        and x[:, 1].strides == [12, 1]
        and x[1].unsqueeze(1).strides == [4, 4, 1]
    )
    assert not x.T.is_contiguous() and x[1].is_contiguous() and not x[:, 1].is_contiguous()
    with pytest.raises(ValueError, match="can not be viewed, please call reshape"):
        x.T.view([24])


def test_another_dtype_is_other_contents():
    x = numbers(2, 3)
    row, others = x[0], x.T
    row.cast_("float64")
    row.fill_(5.0)
    assert x.tolist() == [[1, 2, 3], [4, 5, 6]]
    x.cast_("int32")
    x.fill_(9)
    assert others.dtype == paddle.float32 and others.tolist() == [[1, 4], [2, 5], [3, 6]]


def test_a_result_that_does_not_fit_in_place_is_refused():
    x = numbers(2, 3)
    with pytest.raises(ValueError, match=r"The shape of broadcast output \[2, 3\] is different from that of inplace tensor .*\[3\]"):
        x[0].add_(paddle.ones([2, 3]))
    assert x.tolist() == [[1, 2, 3], [4, 5, 6]]


def test_data_is_shared():
    x = numbers(2, 3, stop_gradient=False)
    row = x[0]
    x.data.fill_(2.0)
    assert x.tolist() == [[2, 2, 2], [2, 2, 2]]
    other = paddle.zeros([3])
    x.data = other
    other.fill_(4.0)
    assert x.tolist() == [4, 4, 4] and row.tolist() == [2, 2, 2] and not x.stop_gradient


def test_a_tensor_made_of_another_one_shares_its_contents():
    x = numbers(3)
    again = paddle.Tensor(x)
    x.fill_(0.0)
    assert again.tolist() == [0, 0, 0]
    written = paddle.jit.to_static(lambda y: _written_through_another(y))(x)
    assert written.tolist() == [7, 7, 7]


def _written_through_another(y):
    b = y * 1
    paddle.Tensor(b).fill_(7.0)
    return b


def test_copies_of_views_are_tensors_of_their_own():
    x = numbers(2, 3)
    row = x[0]
    for twin in (copy.deepcopy(row), pickle.loads(pickle.dumps(row))):
        twin.fill_(0.0)
        assert x.tolist() == [[1, 2, 3], [4, 5, 6]] and row.tolist() == [1, 2, 3]


def test_views_follow_an_optimizer_and_a_state_dict():
    layer = paddle.nn.Linear(2, 2, bias_attr=False)
    held, transposed = layer.weight.detach(), layer.weight.T
    optimizer = paddle.optimizer.SGD(learning_rate=1.0, parameters=layer.parameters())
    layer(paddle.ones([1, 2])).sum().backward()
    before = layer.weight.numpy()
    optimizer.step()
    assert np.array_equal(held.numpy(), before - 1) and np.array_equal(transposed.numpy(), (before - 1).T)
    layer.set_state_dict({"weight": paddle.to_tensor([[1.0, 2.0], [3.0, 4.0]])})
    assert held.tolist() == [[1, 2], [3, 4]] and transposed.tolist() == [[1, 3], [2, 4]] and layer.weight.is_leaf
    with paddle.no_grad():
        held.zero_()
    assert layer.weight.tolist() == [[0, 0], [0, 0]]


def test_the_page_says_what_is():
    text = (Path(__file__).parents[2] / "docs/views.md").read_text(encoding="utf-8")
    exec(text.split("```python\n")[1].split("```")[0], {})


def test_views_that_are_gone_leave_nothing_behind():
    weight = paddle.nn.Linear(2, 2).weight
    for _ in range(2000):
        assert weight.T is not weight
    assert len(weight._view.members) < 64
    weight.set_value(weight * 2)
    assert weight._view is None


# --- traced functions


def shared():
    w = numbers(2, 3)
    return {"w": w, "row": w[0], "turned": w.T, "held": w.detach()}


def only_views():
    w = numbers(2, 3)
    held = w.detach()[0]
    return {"w": held, "row": held[1:], "turned": held.unsqueeze(0), "held": held}


def to_a_row(s, x):
    s["w"][0].add_(x[0])
    return s["w"] * 1


def to_a_view_from_outside(s, x):
    s["row"].add_(x.sum())
    return s["w"] + s["turned"].sum() + s["held"]


def to_a_detached_one(s, x):
    s["held"][0:1].scale_(2.0)
    return s["row"] + s["turned"].sum()


def to_the_owner(s, x):
    s["w"].scale_(2.0)
    return s["row"] + x.sum()


def to_overlapping_ones(s, x):
    s["turned"][0, 0:1].add_(x[:1])
    s["w"][0].add_(x[0])
    s["row"][1:].zero_()
    return s["row"] * s["row"], s["held"] * 1


def to_a_place_that_is_not_known(s, x):
    place = (x[0] * 0 + 1).astype("int64")
    s["turned"][0][place].add_(x[0])
    m = paddle.zeros([3, 2, 2])
    m[place, :, place - 1].add_(x[:2])
    m[place + 1, None, 0].fill_(5.0)
    return m, s["row"] * 1


def to_none_from_outside(s, x):
    b = x * 1
    v = b[1:]
    v.scale_(3.0)
    u = b.reshape([3, 1])
    b.unsqueeze_(0).transpose_([1, 0])
    b.add_(paddle.ones([3, 1]))
    return b, v, u


@pytest.mark.parametrize("make", [shared, only_views])
@pytest.mark.parametrize(
    "function",
    [
        *(to_a_row, to_a_place_that_is_not_known, to_a_view_from_outside, to_a_detached_one),
        *(to_the_owner, to_overlapping_ones, to_none_from_outside),
    ],
)
def test_traced_writes_reach_all_that_share(make, function):
    eager, traced = make(), make()
    compiled = paddle.jit.to_static(lambda x: function(traced, x))
    for n in range(3):
        x = numbers(3) * (n + 1)
        a, b = function(eager, x), compiled(x)
        for got, wanted in zip(b if isinstance(b, tuple) else [b], a if isinstance(a, tuple) else [a], strict=True):
            assert np.array_equal(got.numpy(), wanted.numpy())
        for name in eager:
            assert np.array_equal(traced[name].numpy(), eager[name].numpy()), name


def test_equal_arrays_are_not_shared_contents_in_a_trace():
    """A parameter that took over the state of another one goes its own way afterwards."""
    a, b = numbers(2), paddle.zeros([2])
    b.set_value(a)
    total = paddle.jit.to_static(lambda x: a * x + b)
    x = paddle.ones([2])
    assert total(x).tolist() == [2, 4]
    a.set_value(paddle.zeros([2]))
    assert total(x).tolist() == [1, 2]


def _given(function, w):
    return lambda x: function(w, x)


def past_a_view(w, x):
    b = w * x
    b[0].scale_(2.0)
    return b * b


def past_a_view_of_a_written_one(w, x):
    b = w * x
    v = b.T
    b[0] = x * x
    return v * v


def past_a_buffer(w, x):
    b = paddle.zeros([2, 3])
    b[0].add_(x)
    b[1] = w[1]
    return b * b


def past_detached_contents(w, x):
    b = w * x
    b.detach().fill_(3.0)
    return b * b


def past_a_parameter_set_without_gradients(w, x):
    with paddle.no_grad():
        w[0].scale_(2.0)
    return w * w * x


def past_a_detached_one_added(w, x):
    b = w * x
    held, view = b.detach(), b[...]
    b.add_(held)
    held.scale_(3.0)
    return b * b + view * view * held


def past_a_detached_one_scaled_by_a_parameter(w, x):
    b = w * x
    held = b.detach()
    held.multiply_(w)
    return b * b + held


def past_a_view_without_gradients(w, x):
    b = w * x
    with paddle.no_grad():
        v = b[0]
    v.scale_(2.0)
    return b * b


def past_a_parameter_written_through_a_view(w, x):
    w[0].zero_()
    return w * w * x


@pytest.mark.parametrize(
    "function",
    [
        past_a_view, past_a_view_of_a_written_one, past_a_buffer, past_detached_contents, past_a_parameter_set_without_gradients,
        past_a_view_without_gradients,
        past_a_detached_one_added, past_a_detached_one_scaled_by_a_parameter,
        past_a_parameter_written_through_a_view,
    ],
)  # fmt: skip
def test_traced_gradients_past_writes_are_as_eagerly(function):
    found = []
    for make in (lambda f: f, paddle.jit.to_static):
        w, x = numbers(2, 3, stop_gradient=False), numbers(3, stop_gradient=False)
        call = make(_given(function, w))
        for _ in range(2):
            call(x).sum().backward()
        found.append([w.numpy().tolist(), *(None if t.grad is None else t.grad.tolist() for t in (w, x))])
    assert found[0] == found[1]


def test_variables_of_a_static_program_share_nothing():
    """As in Paddle."""
    paddle.enable_static()
    try:
        main = paddle.static.Program()
        with paddle.static.program_guard(main):
            x = paddle.static.data("x", [2, 3], "float32")
            b = x * 1
            row, turned = b[0], b.T
            b.add_(paddle.ones([2, 3]))
        given_ = np.arange(6, dtype=np.float32).reshape(2, 3)
        results = paddle.static.Executor().run(main, feed={"x": given_}, fetch_list=[row, turned])
    finally:
        paddle.disable_static()
    assert np.array_equal(results[0], given_[0]) and np.array_equal(results[1], given_.T)
