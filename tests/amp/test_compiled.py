"""Compiled functions in regions, and with regions in them: the dtypes of eager mode, and its numbers within half precision's rounding."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import polyreme as paddle

F = paddle.nn.functional
pytestmark = pytest.mark.usefixtures("on_cpu")
REGIONS: list[dict[str, Any]] = [{"enable": False}, {"level": "O1"}, {"level": "O1", "dtype": "bfloat16"}, {"level": "O2"}]


@pytest.fixture(scope="module")
def net() -> Any:
    paddle.seed(0)
    return paddle.nn.Sequential(paddle.nn.Linear(8, 16), paddle.nn.ReLU(), paddle.nn.LayerNorm(16), paddle.nn.Linear(16, 4))


def compare(made: Any, wanted: Any) -> None:
    for a, b in zip(made, wanted, strict=True):
        assert a.dtype == b.dtype
        assert np.allclose(a.astype("float32").numpy(), b.astype("float32").numpy(), rtol=0.02, atol=0.02)


@pytest.mark.parametrize("full_graph", [False, True])
def test_code_for_one_region_is_not_run_in_another(net: Any, full_graph: bool) -> None:
    x, labels = paddle.rand([5, 8]), paddle.to_tensor([0, 1, 2, 3, 1])

    def function(x: Any) -> Any:
        scores = net(x)
        return F.cross_entropy(scores, labels), scores

    compiled = paddle.jit.to_static(function, full_graph=full_graph)
    for _ in range(2):
        for options in REGIONS:
            with paddle.amp.auto_cast(**options):
                compare(compiled(x), function(x))
    assert len(compiled.programs()) == len(REGIONS)


def test_gradients_of_compiled_code_are_those_of_eager_mode(net: Any) -> None:
    x, labels = paddle.rand([5, 8]), paddle.to_tensor([0, 1, 2, 3, 1])
    function = lambda x: F.cross_entropy(net(x), labels)  # noqa: E731
    compiled = paddle.jit.to_static(function)
    for options in REGIONS[:3]:
        found = []
        for one in (function, compiled):
            net.clear_gradients()
            with paddle.amp.auto_cast(**options):
                loss = one(x)
            loss.backward()
            assert {p.grad.dtype for p in net.parameters()} == {paddle.float32}
            found.append([p.grad.numpy() for p in net.parameters()])
        for a, b in zip(*found, strict=True):
            assert np.abs(a - b).max() < 0.01


@pytest.mark.parametrize("full_graph", [False, True])
def test_a_region_inside_of_a_function_is_part_of_its_code(net: Any, full_graph: bool) -> None:
    def function(x: Any, level: str) -> Any:
        with paddle.amp.auto_cast(level=level):
            inner = net(x)
            with paddle.amp.auto_cast(enable=False):
                plain = net(x)
        return inner, plain, net(x)

    x = paddle.rand([5, 8])
    compiled = paddle.jit.to_static(function, full_graph=full_graph)
    for options in REGIONS:
        with paddle.amp.auto_cast(**options):
            for level in ("O1", "O0"):
                compare(compiled(x, level), function(x, level))


def test_lists_from_outside_are_looked_at_again() -> None:
    names = {"matmul_v2"}
    region = paddle.amp.auto_cast(dtype="bfloat16")

    def function(x: Any) -> Any:
        with paddle.amp.auto_cast(custom_black_list=names):
            first = x @ x
        with region:
            second = x @ x
        return first, second

    compiled, x = paddle.jit.to_static(function), paddle.rand([4, 4])
    assert [t.dtype for t in compiled(x)] == [paddle.float32, paddle.bfloat16]
    assert [t.dtype for t in compiled(x)] == [paddle.float32, paddle.bfloat16]
    names.clear()
    assert [t.dtype for t in compiled(x)] == [paddle.float16, paddle.bfloat16]


def test_a_decorated_function_and_one_that_runs_in_parts() -> None:
    @paddle.amp.auto_cast(dtype="bfloat16")
    def decorated(x: Any) -> Any:
        return [x @ x]

    def in_parts(x: Any) -> Any:
        with paddle.amp.auto_cast():
            y = x @ x
            if float(y.sum()) > 0:
                y = y @ x
            assert paddle.amp.is_autocast_enabled() and paddle.get_autocast_dtype() == "float16"
            return [y, y + x]

    x = paddle.rand([4, 4])
    for function in (decorated, in_parts):
        compiled = paddle.jit.to_static(function)
        for _ in range(3):
            compare(compiled(x), function(x))
    for _ in range(3):
        with paddle.amp.auto_cast(enable=False):
            compare(compiled(x), in_parts(x))


def test_an_error_inside_of_a_region_leaves_it() -> None:
    def function(x: Any) -> Any:
        with paddle.amp.auto_cast():
            y = x @ x
            raise ValueError(f"of {y.ndim} axes")

    compiled = paddle.jit.to_static(function)
    for _ in range(2):
        with pytest.raises(ValueError, match="of 2 axes"):
            compiled(paddle.rand([2, 2]))
        assert not paddle.amp.is_autocast_enabled()


def test_the_flag_is_looked_at_again() -> None:
    def function(x: Any) -> Any:
        with paddle.amp.auto_cast():
            return x @ x

    compiled, x = paddle.jit.to_static(function), paddle.rand([2, 2])
    assert compiled(x).dtype == paddle.float16
    paddle.set_flags({"FLAGS_amp_on_cpu": False})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert compiled(x).dtype == paddle.float32
    paddle.set_flags({"FLAGS_amp_on_cpu": True})
    assert compiled(x).dtype == paddle.float16
