"""Functions that choose among boxes are the operators of `tests/selection_cases.py` in eager mode, in static Programs and compiled."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import polyreme as paddle
from polyreme.boxes import functions
from polyreme.boxes.multiclass import multiclass_nms, multiclass_nms_of_regions
from polyreme.ir.evaluate import evaluate
from polyreme.ir.verify import verify
from polyreme.loaders import read_model
from polyreme.operators.table import apply_pir
from polyreme.static import InputSpec
from polyreme.vision import ops

Array = np.ndarray[Any, Any]


def boxes(*shape: int, seed: int = 0) -> Array:
    near, size = np.random.default_rng(seed).random((2, *shape, 2)) * 50
    return np.concatenate([near, near + size], -1).astype("float32")


def scores(*shape: int, seed: int = 1) -> Array:
    return np.random.default_rng(seed).random(shape).astype("float32")


def anchored() -> list[Array]:
    moves = np.random.default_rng(2).standard_normal((2, 12, 3, 4)).astype("float32")
    return [scores(2, 3, 3, 4), moves, np.float32([[90, 70], [40, 60]]), boxes(3, 4, 3), scores(3, 4, 3, 4)]


SAVED = Path(__file__).parents[1] / "fixtures" / "models" / "selection"
FILES = sorted(p.name for p in SAVED.iterdir() if p.suffix != ".npz")
FUNCTIONS: dict[str, tuple[Callable[..., Any], list[Array]]] = {
    "nms": (lambda b: ops.nms(b, 0.3), [boxes(20)]),
    "nms by scores": (lambda b, s: ops.nms(b, 0.3, s), [boxes(20), scores(20)]),
    "nms by classes": (
        lambda b, s, c: ops.nms(b, 0.3, s, c, [0, 2], 6),
        [boxes(20), scores(20), np.arange(20) % 3],
    ),
    "matrix_nms": (lambda b, s: ops.matrix_nms(b, s, 0.2, 0.1, 8, 9, return_index=True), [boxes(2, 12), scores(2, 3, 12)]),
    "generate_proposals": (
        lambda *given: ops.generate_proposals(*given, pre_nms_top_n=20, post_nms_top_n=6, min_size=3.0, return_rois_num=True),
        anchored(),
    ),
    "generate_proposals by rows of anchors": (
        lambda *given: ops.generate_proposals(*given, pre_nms_top_n=20, post_nms_top_n=6, return_rois_num=True),
        [*anchored()[:3], boxes(36), scores(36, 4)],
    ),
    "distribute_fpn_proposals": (
        lambda rois, count: ops.distribute_fpn_proposals(rois, 2, 4, 3, 30, rois_num=count), [boxes(20), np.int32([7, 0, 13])]
    ),
    "multiclass_nms3": (
        lambda b, s: multiclass_nms(b, s, 0.2, 9, 7),
        [boxes(2, 12), scores(2, 3, 12)],
    ),
    "multiclass_nms3 of regions": (
        lambda b, s, n: multiclass_nms_of_regions(b, s, n, 0.2, 9, 7),
        [boxes(12, 3), scores(12, 3), np.int32([5, 7])],
    ),
}  # fmt: skip


def flat(made: Any) -> list[Any]:
    return [one for part in made for one in flat(part)] if isinstance(made, (list, tuple)) else [made]


def eager(name: str) -> list[Array]:
    function, given = FUNCTIONS[name]
    return [one.numpy() for one in flat(function(*map(paddle.to_tensor, given)))]


def same(made: list[Array], expected: list[Array]) -> None:
    assert [(a.shape, a.dtype) for a in made] == [(a.shape, a.dtype) for a in expected]
    for ours, theirs in zip(made, expected, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-5)


def some(names: list[str], of: Any = FUNCTIONS) -> list[Any]:
    """Those of these names, and the others for who has time."""
    return [name if name in names else pytest.param(name, marks=pytest.mark.slow) for name in of]


@pytest.mark.parametrize("name", some(["nms by classes", "multiclass_nms3"]))
def test_a_compiled_function_of_free_sizes_gives_what_eager_mode_gives(name: str) -> None:
    function, given = FUNCTIONS[name]
    spec = [InputSpec([None, *array.shape[1:]], str(array.dtype), f"x{i}") for i, array in enumerate(given)]
    traced = paddle.jit.to_static(function, input_spec=spec, full_graph=True)
    same([one.numpy() for one in flat(traced(*map(paddle.to_tensor, given)))], eager(name))


@pytest.mark.parametrize("name", some(["matrix_nms"], ["nms by classes", "matrix_nms", "distribute_fpn_proposals"]))
def test_a_static_program_gives_what_eager_mode_gives(name: str) -> None:
    function, given = FUNCTIONS[name]
    expected = eager(name)
    paddle.enable_static()
    try:
        main = paddle.static.Program()
        with paddle.static.program_guard(main):
            made = flat(function(*(paddle.static.data(f"x{i}", [-1, *a.shape[1:]], str(a.dtype)) for i, a in enumerate(given))))
            got = paddle.static.Executor().run(main, feed={f"x{i}": a for i, a in enumerate(given)}, fetch_list=made)
    finally:
        paddle.disable_static()
    same(got, expected)
    if name != "nms by classes":
        assert [op.type for op in main.global_block().ops] == [name]


@pytest.mark.parametrize("name", some(["nms by classes"], ["nms by classes", "matrix_nms", "generate_proposals"]))
def test_eager_mode_compiles_what_is_large(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = eager(name)
    monkeypatch.setattr(functions, "LARGE", 0)
    same(eager(name), expected)


@pytest.mark.parametrize("name", ["nms", "nms by scores", "multiclass_nms3", "multiclass_nms3 of regions", "matrix_nms"])
def test_no_boxes_at_all_give_none(name: str) -> None:
    function, given = FUNCTIONS[name]
    sizes = [[0 if size in (20, 12) else size for size in array.shape] for array in given]
    made = flat(function(*(paddle.zeros(size, str(array.dtype)) for size, array in zip(sizes, given, strict=True))))
    assert made[0].shape[0] == 0
    assert all(part.shape == [0, 1] or not part.numpy().any() for part in made[1:])


def calls_of(name: str) -> list[tuple[list[Array], list[Array]]]:
    """Inputs and results of each call that Paddle was given."""
    with np.load(SAVED / f"{name.removesuffix('_legacy')}.npz") as values:
        found: dict[str, tuple[list[Array], list[Array]]] = {}
        for key in values.files:
            call, _, what = key.partition(".")
            found.setdefault(call, ([], []))[what[0] == "y"].append(values[key])
    return list(found.values())


@pytest.mark.parametrize("file", FILES)
def test_a_model_that_paddle_saved_gives_what_paddle_gives(file: str) -> None:
    module = read_model(SAVED / file).frozen()
    verify(module)
    for given, expected in calls_of(file.rpartition(".")[0]):
        same(evaluate(module, given), expected)


@pytest.mark.parametrize("file", some(["multiclass_nms3.json"], FILES))
def test_a_library_of_a_model_that_paddle_saved_gives_what_paddle_gives(file: str, tmp_path: Path) -> None:
    library = paddle.compile(paddle.jit.load(SAVED / file), tmp_path / "net.so")
    for given, expected in calls_of(file.rpartition(".")[0]):
        same([np.asarray(one) for one in flat(library(*given))], expected)


def test_gradients_do_not_pass_a_choice() -> None:
    given = paddle.to_tensor(boxes(1, 12), stop_gradient=False), paddle.to_tensor(scores(1, 3, 12), stop_gradient=False)
    assert ops.matrix_nms(*given, 0.2, 0.1, 8, 9)[0].stop_gradient


def test_regions_that_are_not_those_of_the_images_are_an_error() -> None:
    with pytest.raises(ValueError, match="got 3 more"):
        ops.distribute_fpn_proposals(paddle.to_tensor(boxes(5)), 2, 4, 3, 30, rois_num=paddle.to_tensor(np.int32([2])))


def test_regions_whose_size_is_no_number_go_to_the_first_level() -> None:
    # What Paddle 3.3.1 gives.
    regions = np.float32([[np.nan, 0, 224, 224], [0, 0, 448, 448], [0, 0, np.inf, 224], [0, 0, 10, 10]])
    parts, restore, counts = ops.distribute_fpn_proposals(
        paddle.to_tensor(regions), 2, 5, 4, 224, rois_num=paddle.to_tensor(np.int32([2, 2]))
    )
    assert [part.shape[0] for part in parts] == [3, 0, 0, 1]
    assert restore.numpy()[:, 0].tolist() == [0, 3, 1, 2]
    assert [count.tolist() for count in counts] == [[1, 2], [0, 0], [0, 0], [1, 0]]


def test_boxes_of_other_forms_are_an_error() -> None:
    attributes = {"score_threshold": 0.2, "nms_top_k": 9, "keep_top_k": 7}
    with pytest.raises(ValueError, match="expected boxes of 4 edges for 'multiclass_nms3' but got 8 numbers"):
        apply_pir("multiclass_nms3", [paddle.zeros([1, 5, 8]), paddle.zeros([1, 2, 5])], attributes)
    with pytest.raises(ValueError, match="expected 'rois_num'"):
        apply_pir("multiclass_nms3", [paddle.zeros([5, 2, 4]), paddle.zeros([5, 2])], attributes)
    with pytest.raises(ValueError, match=r"expected boxes of shape \[1, 6, 4\] but got \[1, 5, 4\]"):
        apply_pir("multiclass_nms3", [paddle.zeros([1, 5, 4]), paddle.zeros([1, 2, 6])], attributes)
    with pytest.raises(ValueError, match=r"expected anchors of shape \[36, 4\] but got \[35, 4\]"):
        ops.generate_proposals(*map(paddle.to_tensor, [*anchored()[:3], boxes(35), scores(36, 4)]))
