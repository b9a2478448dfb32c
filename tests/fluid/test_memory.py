"""`memory_optimize` and `release_memory`: a smaller plan, the same results."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from polyreme import fluid, static


def build(optimizer: Any) -> tuple[Any, Any, Any]:
    main, startup = fluid.Program(), fluid.Program()
    startup.random_seed = 3
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        hidden = fluid.layers.data("x", shape=[48])
        for _ in range(2):
            hidden = fluid.layers.fc(hidden, 48, act="tanh")
        loss = fluid.layers.mean(hidden)
        optimizer().minimize(loss)
    return main, startup, loss


def clipped() -> Any:
    return fluid.optimizer.SGD(0.1, grad_clip=fluid.clip.GradientClipByNorm(0.1))


def trained(main: Any, startup: Any, loss: Any) -> list[Any]:
    with fluid.scope_guard(fluid.Scope()):
        exe = fluid.Executor(fluid.CPUPlace())
        exe.run(startup)
        feed = {"x": np.linspace(-1, 1, 4 * 48, dtype=np.float32).reshape(4, 48)}
        losses = [exe.run(main, feed, [loss])[0] for _ in range(3)]
        return [*losses, *[np.array(fluid.global_scope().find_var(p.name).get_tensor()) for p in main.all_parameters()]]


def test_gradients_that_are_used_up_at_once_take_less_memory(capsys: pytest.CaptureFixture[str]) -> None:
    main, startup, loss = build(clipped)
    before = trained(main, startup, loss)
    order = [op.type for op in main.global_block().ops]
    saving = fluid.memory_optimize(main, [loss], print_log=True)
    assert saving is not None and saving.shared < 0.8 * saving.before < saving.apart
    assert f"{saving.shared} bytes in place of {saving.before}" in capsys.readouterr().out
    after = [op.type for op in main.global_block().ops]
    assert after != order and sorted(after) == sorted(order)
    for old, new in zip(before, trained(main, startup, loss), strict=True):
        np.testing.assert_allclose(new, old, rtol=1e-6, atol=1e-7)


def test_what_is_skipped_or_would_not_gain_stays_where_it_is() -> None:
    main, _, loss = build(clipped)
    order = list(main.global_block().ops)
    saving = fluid.memory_optimize(main, [loss, *[v for v in main.list_vars() if v.name.endswith("@GRAD")]])
    assert saving is not None and saving.saved == 0 and main.global_block().ops == order
    fluid.memory_optimize(main, [loss])
    assert main.global_block().ops != order
    # Every operator still comes after those that it needs.
    written: set[str] = set()
    for op in main.global_block().ops:
        for name in op.input_arg_names:
            variable = main.global_block().var(name)
            assert variable.persistable or variable.is_data or name in written, (op.type, name)
        written.update(op.output_arg_names)


def test_working_memory_is_given_back_after_each_run() -> None:
    main, startup, loss = build(lambda: fluid.optimizer.SGD(0.1))
    before = trained(main, startup, loss)

    def held() -> int:
        plans = [plan for plan in main.plans.values() if getattr(plan, "executable", None) is not None]
        return sum(len(plan.executable._free) for plan in plans)

    assert held() > 0
    fluid.release_memory(main)
    assert any(op.type == "delete_var" for op in main.global_block().ops)
    for old, new in zip(before, trained(main, startup, loss), strict=True):
        np.testing.assert_array_equal(new, old)
    assert held() == 0


def test_a_program_that_the_host_interrupts_is_planned_in_parts() -> None:
    main = fluid.Program()
    with fluid.program_guard(main, fluid.Program()):
        hidden = fluid.layers.softmax(fluid.layers.fc(fluid.layers.data("x", shape=[16]), 16, act="tanh"))
        out = main.current_block().create_var(name="out", shape=[-1, 16], dtype="float32")
        fluid.layers.softmax(static.py_func(lambda x: x.numpy() * 2, hidden, out))
    saving = fluid.memory_optimize(main, [out])
    assert saving is not None and 0 < saving.shared == saving.before


def test_levels_are_checked() -> None:
    with pytest.raises(ValueError, match="only support opt_level 0 or 1"):
        fluid.memory_optimize(fluid.Program(), level=2)
    assert fluid.memory_optimize(fluid.Program()) is None
