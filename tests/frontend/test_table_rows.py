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


def test_what_is_under_to_static_has_whole_gradients_also_where_it_runs_in_parts() -> None:
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
    assert kinds == {False}
    assert read(layer, 1, 3).is_selected_rows()


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


def test_compiled_ranks_have_whole_gradients() -> None:
    def rank(group: Group) -> Any:
        return trained_by(DataParallel(paddle.jit.to_static(Model()), group=group), BATCHES[:, group.rank])

    found = run_ranks(2, rank)
    kind, expected = trained_by(paddle.jit.to_static(Model()), BATCHES.reshape(2, 6))
    assert [k for k, _ in found] == [kind, kind] == [False, False]
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
