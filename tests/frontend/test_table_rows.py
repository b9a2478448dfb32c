"""Gradients that are rows of a table (`sparse=True`), beyond what Paddle can say of them: `tests/api/cases_tables.py` has the rest."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import polyreme as paddle
import polyreme.fluid as fluid
from polyreme.distributed import DataParallel
from polyreme.distributed.fleet.utils import recompute
from polyreme.distributed.fleet.utils.hybrid_parallel_util import fused_allreduce_gradients
from polyreme.distributed.group import Group
from polyreme.ir.diagnostics import PolyremeError
from polyreme.jit.static_function import LOCATED_CALLS
from polyreme.serialization import SaveError
from polyreme.tensor_kinds.selected_rows import whole
from tests.distributed.ranks import run_ranks

F = paddle.nn.functional
VALUES = np.random.default_rng(5).normal(size=(6, 3)).astype(np.float32)


def table(**options: Any) -> Any:
    made = paddle.nn.Embedding(6, 3, sparse=True, **options)
    made.weight.set_value(VALUES)
    return made


def loss_of(layer: Any, *ids: int) -> Any:
    return (layer(paddle.to_tensor(np.array(ids, np.int64))) ** 2).sum()


def read(layer: Any, *ids: int) -> Any:
    """The gradient of a table of which rows were read."""
    loss_of(layer, *ids).backward()
    return layer.weight.grad


@pytest.mark.parametrize("name", ["AdamW", "Adamax", "Adadelta", "NAdam", "RAdam", "ASGD", "LarsMomentumOptimizer"])
def test_an_optimizer_that_paddle_lets_have_no_rows_says_so(name: str) -> None:
    layer = table()
    if name == "LarsMomentumOptimizer":
        optimizer: Any = paddle.incubate.optimizer.LarsMomentumOptimizer(0.1, 0.9, parameter_list=layer.parameters())
    else:
        optimizer = getattr(paddle.optimizer, name)(0.1, parameters=layer.parameters())
    read(layer, 1, 2)
    with pytest.raises(NotImplementedError, match=rf"{name} has no step for rows.*sparse=False"):
        optimizer.step()
    assert np.array_equal(layer.weight.numpy(), VALUES)


FLUID = {
    "adamax": lambda **more: fluid.optimizer.Adamax(0.1, **more),
    "adadelta": lambda **more: fluid.optimizer.Adadelta(0.1, **more),
    "decayed_adagrad": lambda **more: fluid.optimizer.DecayedAdagrad(0.1, **more),
    "ftrl": lambda **more: fluid.optimizer.Ftrl(0.1, **more),
    "lars_momentum": lambda **more: fluid.optimizer.LarsMomentum(0.1, 0.9, **more),
}


@pytest.mark.parametrize("type", FLUID)
def test_optimizers_of_fluid_without_a_step_for_rows_take_the_whole_gradient(type: str) -> None:
    found = []
    for sparse in (True, False):
        with fluid.dygraph.guard():
            layer = fluid.dygraph.Embedding([6, 3], is_sparse=sparse)
            layer.weight.set_value(VALUES)
            optimizer = FLUID[type](parameter_list=layer.parameters())
            for ids in ([1, 2, 1], [2, 3]):
                loss = fluid.layers.reduce_sum(layer(fluid.dygraph.to_variable(np.array(ids))))
                loss.backward()
                optimizer.minimize(loss)
                layer.clear_gradients()
            found.append(layer.weight.numpy())
    np.testing.assert_allclose(*found, rtol=1e-6)


def test_penalties_make_the_gradient_whole_in_fluid_too() -> None:
    found = []
    for sparse in (True, False):
        with fluid.dygraph.guard():
            layer = fluid.dygraph.Embedding([6, 3], is_sparse=sparse)
            layer.weight.set_value(VALUES)
            loss = fluid.layers.reduce_sum(layer(fluid.dygraph.to_variable(np.array([1, 2]))))
            loss.backward()
            penalty = fluid.regularizer.L2Decay(0.1)
            fluid.optimizer.Adam(0.1, parameter_list=layer.parameters(), regularization=penalty).minimize(loss)
            found.append(layer.weight.numpy())
    assert np.array_equal(*found)


def test_a_clip_by_value_leaves_rows_that_were_not_read_alone() -> None:
    layer = table()
    read(layer, 1, 2, 1)
    paddle.optimizer.SGD(1.0, layer.parameters(), grad_clip=paddle.nn.ClipGradByValue(0.5, 0.1)).step()
    gradient = np.zeros_like(VALUES)
    gradient[[1, 2]] = np.clip(VALUES[[1, 2]] * [[4], [2]], 0.1, 0.5)
    np.testing.assert_allclose(layer.weight.numpy(), VALUES - gradient, rtol=1e-6)


def test_lazy_steps_need_no_warning() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        paddle.optimizer.Adam(0.1, parameters=table().parameters(), lazy_mode=True)


def test_momentum_finds_rows_in_any_order() -> None:
    """Paddle looks for them by a binary search in rows that it has not sorted, and misses some."""
    layer = table()
    read(layer, 5, 0, 3)
    paddle.optimizer.Momentum(1.0, 0.9, layer.parameters()).step()
    expected = VALUES.copy()
    expected[[0, 3, 5]] *= -1
    np.testing.assert_allclose(layer.weight.numpy(), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    "use",
    [
        lambda g: g.sum(),
        lambda g: paddle.concat([g, g]),
        lambda g: g[0],
        lambda g: paddle.ones([2, 3]) + g,
        lambda g: g * g,
        lambda g: g > 0,
    ],
)
def test_functions_do_not_take_rows_for_a_whole_gradient(use: Any) -> None:
    with pytest.raises(TypeError, match="gradient of a table of 6 rows that was read with sparse=True, which holds the 2 rows"):
        use(read(table(), 1, 2))


def test_a_hook_must_not_return_another_shape() -> None:
    layer = table()
    layer.weight.register_hook(lambda g: paddle.to_tensor(g.numpy()))
    with pytest.raises(ValueError, match=r"expected a hook to return rows or a gradient of shape \[6, 3\].* but got one of shape \[2, 3\]"):
        read(layer, 1, 2)


def test_a_hook_may_return_a_whole_gradient() -> None:
    layer = table()
    layer.weight.register_hook(lambda g: paddle.ones([6, 3]))
    assert not read(layer, 1, 2).is_selected_rows()
    assert np.array_equal(layer.weight.grad.numpy(), np.ones((6, 3), np.float32))


def test_a_weight_that_was_computed_is_refused() -> None:
    weight = table().weight
    with pytest.raises(NotImplementedError, match="expected a parameter as the weight but got a tensor that was computed.*sparse=False"):
        F.embedding(paddle.to_tensor([1]), weight * 2, sparse=True)


def test_rows_are_not_saved_as_if_they_were_the_gradient(tmp_path: Any) -> None:
    gradient = read(table(), 1, 2)
    for saved in ({"g": gradient}, {"deep": [gradient]}):
        with pytest.raises(SaveError, match=r"rows of a table.*save its rows\(\) and numpy\(\)"):
            paddle.save(saved, str(tmp_path / "g.pdparams"))


def test_a_copy_of_rows_stands_alone() -> None:
    gradient = read(table(), 4, 1)
    twin = copy.deepcopy(gradient)
    gradient.get_tensor().set_value(np.zeros((2, 3), np.float32))
    assert twin.rows() == [4, 1] and twin.numpy().any() and not gradient.numpy().any()


def test_a_gradient_can_be_set_to_rows_of_its_own_table_alone() -> None:
    layer, other = table(), paddle.nn.Embedding(2, 3, sparse=True)
    layer.weight.grad = read(layer, 1, 2) / 4
    np.testing.assert_allclose(layer.weight.grad.numpy(), VALUES[[1, 2]] / 2, rtol=1e-6)
    with pytest.raises(ValueError, match=r"expected a gradient of shape \[2, 3\] but got \[6, 3\]"):
        other.weight.grad = layer.weight.grad


def test_gradients_of_gradients_are_those_of_a_whole_table() -> None:
    found = []
    for sparse in (True, False):
        weight = paddle.to_tensor(VALUES, stop_gradient=False)
        loss = (F.embedding(paddle.to_tensor([1, 3, 1]), weight, sparse=sparse) ** 3).sum()
        (first,) = paddle.grad(loss, [weight], create_graph=True)
        (first**2).sum().backward()
        found.append([first.numpy(), whole(weight.grad).numpy()])
    for a, b in zip(*found, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6)


def test_recomputed_lookups_leave_rows() -> None:
    layer = table()
    scale = paddle.to_tensor([2.0], stop_gradient=False)
    recompute(lambda s: loss_of(layer, 1, 3, 1) * s, scale).backward()
    assert layer.weight.grad.is_selected_rows() and layer.weight.grad.rows() == [1, 3, 1]


def test_a_scaler_divides_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    paddle.set_flags({"FLAGS_amp_on_cpu": True})
    try:
        layer, plain = table(), table()
        scaler = paddle.amp.GradScaler(init_loss_scaling=64.0, use_dynamic_loss_scaling=False)
        for one, by in ((layer, scaler.scale), (plain, lambda loss: loss)):
            optimizer = paddle.optimizer.Adam(0.1, parameters=one.parameters(), lazy_mode=True)
            by(loss_of(one, 1, 3, 1)).backward()
            scaler.step(optimizer) if one is layer else optimizer.step()
        scaler.update()
        np.testing.assert_allclose(layer.weight.numpy(), plain.weight.numpy(), rtol=1e-6)
        optimizer = paddle.optimizer.SGD(0.1, layer.parameters())
        layer.clear_gradients()
        before = layer.weight.numpy()
        (loss_of(layer, 1) * float("inf")).backward()
        scaler.step(optimizer)
        assert np.array_equal(layer.weight.numpy(), before)
    finally:
        paddle.set_flags({"FLAGS_amp_on_cpu": False})


def test_half_tables_with_master_weights_step_by_rows() -> None:
    layer = table()
    layer.to(dtype="bfloat16")
    optimizer = paddle.optimizer.Adam(0.1, parameters=layer.parameters(), lazy_mode=True, multi_precision=True)
    for ids in ([1, 3, 1], [1]):
        layer(paddle.to_tensor(ids)).astype("float32").sum().backward()
        assert layer.weight.grad.is_selected_rows() and layer.weight.grad.dtype == paddle.bfloat16
        optimizer.step()
        optimizer.clear_grad()
    (master,) = optimizer.state_dict()["master_weights"].values()
    moved = np.abs(master.numpy() - VALUES).max(1) > 0.01
    assert moved.tolist() == [False, True, False, True, False, False]


def step_of(make: Any, full_graph: bool | None, padding_idx: int | None = None) -> tuple[Any, Any]:
    """The table after four steps, and the step: eager ones where `full_graph` is None."""
    layer = table(padding_idx=padding_idx)
    layer.weight.set_value(VALUES)
    optimizer = make(layer.parameters())

    def step(first: Any, second: Any) -> Any:
        loss = (layer(first) ** 2).mean() + (layer(second) * 0.5).sum()
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        return loss

    run = step if full_graph is None else paddle.jit.to_static(step, full_graph=full_graph)
    for ids in ([1, 3, 1], [2, 3], [1], [5, 5]):
        run(paddle.to_tensor(ids), paddle.to_tensor([[2, 1]]))
    return layer.weight.numpy(), run


STEPS = {
    "Adam, lazy": lambda p: paddle.optimizer.Adam(0.1, parameters=p, lazy_mode=True),
    "Adam": lambda p: paddle.optimizer.Adam(0.1, parameters=p),
    "Adam, lazy, amsgrad, clipped": lambda p: paddle.optimizer.Adam(
        0.1, parameters=p, lazy_mode=True, amsgrad=True, grad_clip=paddle.nn.ClipGradByGlobalNorm(0.1)
    ),
    "SGD, clipped by value": lambda p: paddle.optimizer.SGD(0.1, p, grad_clip=paddle.nn.ClipGradByValue(0.5, 0.1)),
    "SGD, clipped by norm": lambda p: paddle.optimizer.SGD(0.1, p, grad_clip=paddle.nn.ClipGradByNorm(0.1)),
    "SGD, decayed": lambda p: paddle.optimizer.SGD(0.1, p, weight_decay=0.1),
    "Momentum": lambda p: paddle.optimizer.Momentum(0.1, 0.9, p, use_nesterov=True, weight_decay=0.1),
    "Adagrad": lambda p: paddle.optimizer.Adagrad(0.1, parameters=p),
    "RMSProp": lambda p: paddle.optimizer.RMSProp(0.1, parameters=p, centered=True),
    "Lamb": lambda p: paddle.optimizer.Lamb(0.1, parameters=p),
    "Rprop": lambda p: paddle.optimizer.Rprop(0.1, parameters=p),
}


@pytest.mark.parametrize("padding_idx", [None, 1])
@pytest.mark.parametrize("name", STEPS)
def test_a_compiled_step_moves_the_rows_that_an_eager_one_moves(name: str, padding_idx: int | None) -> None:
    expected, _ = step_of(STEPS[name], None, padding_idx)
    found, step = step_of(STEPS[name], False, padding_idx)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
    assert step.programs()
    if name != "Lamb" and "decayed" not in name and name != "Momentum":
        assert np.array_equal(found[[0, 4]], VALUES[[0, 4]])


def test_a_step_that_must_be_one_program_moves_rows_too() -> None:
    expected, _ = step_of(STEPS["Adam, lazy"], None)
    found, _ = step_of(STEPS["Adam, lazy"], True)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("full_graph", [False, True])
def test_errors_of_steps_by_rows_are_those_of_eager_mode(full_graph: bool) -> None:
    with pytest.raises(NotImplementedError, match=r"AdamW has no step for rows.*sparse=False"):
        step_of(lambda p: paddle.optimizer.AdamW(0.1, parameters=p), full_graph)
    with pytest.raises(RuntimeError, match="Adam don't support weight_decay with sparse parameters"):
        step_of(lambda p: paddle.optimizer.Adam(0.1, parameters=p, weight_decay=0.1), full_graph)


def lazily(net: Any) -> Any:
    return paddle.optimizer.Adam(0.1, parameters=net.parameters(), lazy_mode=True)


def looks_at_rows(layer: Any, optimizer: Any, ids: Any) -> Any:
    (layer(ids) ** 2).sum().backward()
    assert layer.weight.grad.is_selected_rows() and len(layer.weight.grad.rows()) == 2
    optimizer.step()
    optimizer.clear_grad()


def looks_at_the_shape(layer: Any, optimizer: Any, ids: Any) -> Any:
    (layer(ids) ** 2).sum().backward()
    assert layer.weight.grad.shape == [2, 3]
    optimizer.step()
    optimizer.clear_grad()


def clears_first(layer: Any, optimizer: Any, ids: Any) -> Any:
    optimizer.clear_grad()
    (layer(ids) ** 2).sum().backward()
    optimizer.step()


def reads_in_a_branch(layer: Any, optimizer: Any, ids: Any) -> Any:
    if ids.sum() > 4:
        found = layer(ids) * 2
    else:
        found = layer(ids)
    (found**2).sum().backward()
    optimizer.step()
    optimizer.clear_grad()


def recomputes(layer: Any, optimizer: Any, ids: Any) -> Any:
    scale = paddle.ones([1])
    scale.stop_gradient = False
    recompute(lambda s: (layer(ids) ** 2).sum() * s, scale).backward()
    optimizer.step()
    optimizer.clear_grad()


def reads_all_of_it_too(layer: Any, optimizer: Any, ids: Any) -> Any:
    ((layer(ids) ** 2).sum() + (layer.weight**3).sum()).backward()
    optimizer.step()
    optimizer.clear_grad()


def steps_twice(layer: Any, optimizer: Any, ids: Any) -> Any:
    for part in (ids, ids + 1):
        (layer(part) ** 2).sum().backward()
    optimizer.step()
    optimizer.clear_grad()
    (layer(ids) ** 2).sum().backward()
    optimizer.step()
    optimizer.clear_grad()


def changes_positions(layer: Any, optimizer: Any, ids: Any) -> Any:
    mine = ids + 0
    loss = (layer(mine) ** 2).sum()
    mine.add_(paddle.ones_like(mine))
    loss.backward()
    optimizer.step()
    optimizer.clear_grad()


def leaves_the_gradient(layer: Any, optimizer: Any, ids: Any) -> Any:
    return (layer(ids) ** 2).sum()


def divides_by_a_scale(layer: Any, optimizer: Any, ids: Any) -> Any:
    loss = (layer(ids) ** 2).sum()
    layer.scaler.scale(loss).backward()
    layer.scaler.step(optimizer)
    layer.scaler.update()
    optimizer.clear_grad()


@pytest.mark.parametrize(
    "body",
    [
        looks_at_rows, looks_at_the_shape, clears_first, reads_in_a_branch, recomputes, reads_all_of_it_too, steps_twice, changes_positions,
        leaves_the_gradient, divides_by_a_scale,
    ],
)  # fmt: skip
def test_whatever_a_compiled_function_does_with_rows_its_table_moves_as_eagerly(body: Any) -> None:
    paddle.set_flags({"FLAGS_amp_on_cpu": True})
    try:
        found = []
        for compiled in (False, True):
            layer = table()
            layer.scaler = paddle.amp.GradScaler(init_loss_scaling=64.0, use_dynamic_loss_scaling=False)
            optimizer = lazily(layer)
            call = lambda ids, layer=layer, optimizer=optimizer: body(layer, optimizer, ids)
            run = paddle.jit.to_static(call) if compiled else call
            for ids in ([1, 3], [2, 4], [1, 2], [0, 1]):
                loss = run(paddle.to_tensor(ids))
                if loss is not None:
                    loss.backward()
                    assert layer.weight.grad.is_selected_rows() and layer.weight.grad.rows() == ids
                    optimizer.step()
                    optimizer.clear_grad()
            found.append(layer.weight.numpy())
        np.testing.assert_allclose(*found, rtol=1e-5, atol=1e-6)
    finally:
        paddle.set_flags({"FLAGS_amp_on_cpu": False})


def test_steps_that_read_rows_in_a_branch_are_refused_as_one_program() -> None:
    layer = table()
    optimizer = lazily(layer)
    run = paddle.jit.to_static(lambda ids: reads_in_a_branch(layer, optimizer, ids), full_graph=True)
    with pytest.raises(PolyremeError, match=r"read with sparse=True is read in a branch, a loop or a rule of gradients"):
        run(paddle.to_tensor([1, 3]))


def test_a_function_that_must_be_one_program_has_whole_gradients_after_the_call_and_says_so(caplog: pytest.LogCaptureFixture) -> None:
    layer = table()
    looked_up = paddle.jit.to_static(lambda ids: (layer(ids) ** 2).sum(), full_graph=True)
    looked_up(paddle.to_tensor([1, 3])).backward()
    assert not layer.weight.grad.is_selected_rows()
    assert "read with sparse=True has gradients after the call: they are whole" in caplog.text


def test_a_function_under_to_static_leaves_rows_at_every_call() -> None:
    layer = table()

    @paddle.jit.to_static
    def looked_at(ids: Any) -> Any:
        found = layer(ids)
        return (found**2).sum() * float(found.numpy().size > 0)

    kinds = set()
    for _ in range(3 * LOCATED_CALLS):  # from some call on it runs as plain Python
        looked_at(paddle.to_tensor([1, 3])).backward()
        kinds.add(layer.weight.grad.is_selected_rows())
        layer.weight.clear_gradient(False)
    assert kinds == {True}


class Model(paddle.nn.Layer):
    def __init__(self, sparse: bool = True) -> None:
        super().__init__()
        self.table = paddle.nn.Embedding(6, 3, sparse=sparse)
        self.table.weight.set_value(VALUES)
        self.out = paddle.nn.Linear(3, 1, weight_attr=paddle.nn.initializer.Constant(0.5))

    def forward(self, ids: Any) -> Any:
        return self.out(self.table(ids))


BATCHES = np.array([[[1, 3, 1], [2, 3, 5]], [[0, 0, 0], [1, 2, 0]]])


def trained_by(net: Any, groups: Any) -> Any:
    optimizer = paddle.optimizer.Adam(0.1, parameters=net.parameters(), lazy_mode=True)
    for ids in groups:
        (net(paddle.to_tensor(ids)) ** 2).mean().backward()
        kind = net.parameters()[0].grad.is_selected_rows()
        optimizer.step()
        optimizer.clear_grad()
    return kind, net.parameters()[0].numpy()


@pytest.mark.parametrize("sparse", [True, False])
def test_ranks_step_alike_by_the_rows_that_any_of_them_read(sparse: bool) -> None:
    def rank(group: Group) -> Any:
        return trained_by(DataParallel(Model(sparse), group=group), BATCHES[:, group.rank])

    found = run_ranks(2, rank)
    kind, expected = trained_by(Model(sparse), BATCHES.reshape(2, 6))
    assert [k for k, _ in found] == [kind, kind] == [sparse, sparse]
    assert np.array_equal(found[0][1], found[1][1])
    np.testing.assert_allclose(found[0][1], expected, rtol=1e-5, atol=1e-6)


def test_a_rank_with_a_whole_gradient_makes_that_of_all_whole() -> None:
    def rank(group: Group) -> Any:
        net = Model()
        parallel = DataParallel(net, group=group)
        loss = (parallel(paddle.to_tensor(BATCHES[0, group.rank])) ** 2).mean()
        (loss + (net.table.weight**2).sum() if group.rank else loss).backward()
        return net.table.weight.grad.is_selected_rows(), net.table.weight.grad.numpy()

    (first, a), (second, b) = run_ranks(2, rank)
    assert not first and not second and np.array_equal(a, b)


def test_a_table_that_ranks_do_not_know_of_is_refused() -> None:
    def rank(group: Group) -> Any:
        net = Model(sparse=False)
        net.table.forward = lambda ids: F.embedding(ids, net.table.weight, sparse=True)
        parallel = DataParallel(net, group=group)
        with pytest.raises(NotImplementedError, match="those of nn.Embedding layers.*'table.weight' is none"):
            (parallel(paddle.to_tensor(BATCHES[0, 0])) ** 2).mean().backward()
        return True

    assert run_ranks(2, rank) == [True, True]


def test_rows_are_not_averaged_by_hand() -> None:
    def rank(group: Group) -> Any:
        net = Model()
        parallel = DataParallel(net, group=group)
        with parallel.no_sync():
            (parallel(paddle.to_tensor(BATCHES[0, group.rank])) ** 2).mean().backward()
        before = net.table.weight.grad.numpy()
        with pytest.raises(NotImplementedError, match="expected whole gradients to average but that of '.*' is the rows"):
            fused_allreduce_gradients(list(net.parameters()), group)
        return np.array_equal(net.table.weight.grad.numpy(), before)

    assert run_ranks(2, rank) == [True, True]


def test_ranks_under_to_static_have_rows_as_well() -> None:
    def rank(group: Group) -> Any:
        return trained_by(DataParallel(paddle.jit.to_static(Model()), group=group), BATCHES[:, group.rank])

    found = run_ranks(2, rank)
    kind, expected = trained_by(paddle.jit.to_static(Model()), BATCHES.reshape(2, 6))
    assert [k for k, _ in found] == [kind, kind] == [True, True]
    assert np.array_equal(found[0][1], found[1][1])
    np.testing.assert_allclose(found[0][1], expected, rtol=1e-5, atol=1e-6)


def test_a_rank_that_reads_no_rows_steps_by_those_of_the_others() -> None:
    def rank(group: Group) -> Any:
        net = Model()
        parallel = DataParallel(net, group=group, find_unused_parameters=True)
        loss = parallel(paddle.to_tensor(BATCHES[0, 0]))
        (loss if group.rank else net.out(paddle.ones([1, 3]))).sum().backward()
        return net.table.weight.grad.rows(), net.table.weight.grad.numpy()

    (first, a), (second, b) = run_ranks(2, rank)
    assert first == second == [1, 3] and np.array_equal(a, b)


def test_lazy_steps_on_an_emulated_gpu() -> None:
    found = []
    for device in ("cpu", "gpu-emulated"):
        paddle.set_device(device)
        try:
            layer = table()
            optimizer = paddle.optimizer.Adam(0.1, parameters=layer.parameters(), lazy_mode=True)
            read(layer, 1, 3, 1)
            optimizer.step()
            found.append(layer.weight.numpy())
        finally:
            paddle.set_device("cpu")
    np.testing.assert_allclose(*found, rtol=1e-6)
    assert np.array_equal(found[1][[0, 2, 4, 5]], VALUES[[0, 2, 4, 5]])


def program_of(optimizer: Any) -> tuple[Any, Any]:
    ids = paddle.static.data("ids", [3], "int64")
    attr = paddle.ParamAttr(name="table", initializer=paddle.nn.initializer.Assign(VALUES))
    loss = (paddle.static.nn.embedding(ids, [6, 3], is_sparse=True, param_attr=attr) ** 2).sum()
    optimizer.minimize(loss)
    executor = paddle.static.Executor(paddle.CPUPlace())
    executor.run(paddle.static.default_startup_program())
    executor.run(feed={"ids": np.array([1, 2, 1], np.int64)}, fetch_list=[loss])
    return loss, np.array(paddle.static.global_scope().find_var("table").get_tensor())


def test_a_clip_by_value_in_a_program_leaves_rows_that_were_not_read_alone(static_program: None) -> None:
    _, found = program_of(paddle.optimizer.SGD(1.0, grad_clip=paddle.nn.ClipGradByValue(0.5, 0.1)))
    gradient = np.zeros_like(VALUES)
    gradient[[1, 2]] = np.clip(VALUES[[1, 2]] * [[4], [2]], 0.1, 0.5)
    np.testing.assert_allclose(found, VALUES - gradient, rtol=1e-6)


def test_an_optimizer_without_a_step_for_rows_says_so_in_a_program(static_program: None) -> None:
    with pytest.raises(NotImplementedError, match=r"expected a whole gradient for 'table'.* AdamW has no step for rows"):
        program_of(paddle.optimizer.AdamW(0.1))


@pytest.fixture
def static_program() -> Iterator[None]:
    paddle.enable_static()
    try:
        main, startup = paddle.static.Program(), paddle.static.Program()
        with paddle.static.scope_guard(paddle.static.Scope()), paddle.static.program_guard(main, startup):
            yield
    finally:
        paddle.disable_static()
