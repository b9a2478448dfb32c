"""Regions, deformable windows and boxes by anchors, compiled for free sizes: as in eager mode, which `tests/api` holds to Paddle."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import polyreme as paddle
from polyreme.ir.evaluate import evaluate
from polyreme.loaders import read_model
from polyreme.static import InputSpec
from polyreme.vision import ops

RNG = np.random.default_rng(8)
SAVED = Path(__file__).parents[1] / "fixtures" / "models" / "vision"


@pytest.mark.parametrize("path", sorted(p for p in SAVED.iterdir() if p.suffix != ".npz"), ids=lambda path: path.name)
def test_a_model_of_one_operator_with_free_sizes_gives_what_paddle_gives(path: Path) -> None:
    module = read_model(path).frozen()
    with np.load(SAVED / f"{path.stem.removesuffix('_legacy')}.npz") as file:
        values = dict(file)
    for call in {key.partition(".")[0] for key in values}:
        inputs = [values[f"{call}.x{i}"] for i in range(sum(key.startswith(f"{call}.x") for key in values))]
        for i, made in enumerate(evaluate(module, inputs)):
            wanted = values[f"{call}.y{i}"]
            assert (made.shape, made.dtype) == (wanted.shape, wanted.dtype)
            np.testing.assert_allclose(made, wanted, rtol=0, atol=1e-5 * np.abs(wanted).max())


def drawn(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype("float32")


def boxes_in(count: int, height: int, width: int) -> Any:
    """Boxes of all sizes, over the edges of an image, too."""
    corners = RNG.uniform(-3, max(height, width), (count, 2, 2))
    return np.concatenate([corners.min(1), corners.max(1)], 1).astype("float32")


def seen(x: Any, boxes: Any, count: Any, offset: Any, weight: Any) -> Any:
    """Everything that reads between pixels, or parts of boxes."""
    deformed = ops.deform_conv2d(x, offset, weight, padding=1)
    return (
        ops.roi_align(deformed, boxes, count, (3, 2), 0.5),
        ops.roi_align(deformed, boxes, count, 2, sampling_ratio=2, aligned=False),
        ops.roi_pool(deformed, boxes, count, (2, 3)),
        ops.psroi_pool(deformed, boxes, count, 2),
        *ops.prior_box(deformed, x, [4.0], [6.0], [2.0], flip=True),
    )


SPECS = [
    InputSpec([None, 3, None, None], "float32", "x"), InputSpec([None, 4], "float32", "boxes"), InputSpec([None], "int32", "count"),
    InputSpec([None, 18, None, None], "float32", "offset"), InputSpec([8, 3, 3, 3], "float32", "weight"),
]  # fmt: skip


def given(images: int, height: int, width: int, boxes: tuple[int, ...]) -> list[Any]:
    image, offset = drawn(images, 3, height, width), drawn(images, 18, height, width)
    return [image, boxes_in(sum(boxes), height, width), np.int32(boxes), offset, drawn(8, 3, 3, 3)]


@pytest.mark.slow
def test_a_library_for_free_sizes_gives_what_eager_mode_gives(tmp_path: Path) -> None:
    library = paddle.compile(seen, tmp_path / "seen.so", input_spec=SPECS)
    for arrays in (given(2, 9, 14, (3, 4)), given(1, 5, 5, (2,)), given(1, 8, 6, (0,))):
        wanted = seen(*map(paddle.to_tensor, arrays))
        for ours, eager in zip(library(*arrays), wanted, strict=True):
            assert ours.shape == tuple(eager.shape)
            np.testing.assert_allclose(ours, eager.numpy(), rtol=1e-4, atol=1e-5)


def test_compiled_gradients_are_those_of_eager_mode() -> None:
    arrays = given(2, 6, 7, (2, 2))
    weights = [drawn(*made.shape) for made in seen(*map(paddle.to_tensor, arrays))[:4]]

    def loss(*tensors: Any) -> Any:
        return sum((made * paddle.to_tensor(weight)).sum() for made, weight in zip(seen(*tensors)[:4], weights, strict=True))

    found = []
    for function in (loss, paddle.jit.to_static(loss)):
        tensors = [paddle.to_tensor(array, stop_gradient=array.dtype != np.float32 or array.shape[-1] == 4) for array in arrays]
        function(*tensors).backward()
        found.append([tensors[i].grad.numpy() for i in (0, 3, 4)])
    for eager, compiled in zip(*found, strict=True):
        np.testing.assert_allclose(compiled, eager, rtol=1e-3, atol=1e-4 * np.abs(eager).max())


def test_a_gradient_of_thin_boxes_is_that_of_the_result() -> None:
    # Paddle widens boxes that are thinner than a pixel on the way back only. The result is linear: twice it is what a step of x adds.
    x = paddle.to_tensor(drawn(1, 2, 8, 8), stop_gradient=False)
    boxes = paddle.to_tensor(np.float32([[1, 2, 1.4, 2.3], [3.2, 0, 3.6, 7]]))
    total = ops.roi_align(x, boxes, paddle.to_tensor(np.int32([2])), 2, sampling_ratio=2).square().sum()
    total.backward()
    np.testing.assert_allclose(float((x * x.grad).sum()), 2 * float(total), rtol=1e-5)


@pytest.mark.parametrize("ratio", [-1, 2])
def test_a_box_without_a_size_has_the_mean_of_nothing(ratio: int) -> None:
    x = paddle.ones([1, 1, 6, 6])
    boxes = paddle.to_tensor(np.float32([[2, 2, 2, 2], [4, 4, 3, 1]]))
    made = ops.roi_align(x, boxes, paddle.to_tensor(np.int32([2])), 2, sampling_ratio=ratio)
    np.testing.assert_array_equal(made.numpy(), np.full((2, 1, 2, 2), 0.0 if ratio < 0 else 1.0))


def test_what_does_not_fit_is_said() -> None:
    x, boxes, count = paddle.ones([1, 4, 6, 6]), paddle.zeros([2, 4]), paddle.to_tensor(np.int32([2]))
    with pytest.raises(ValueError, match=r"roi_align expected images \[N, C, H, W\] and boxes \[boxes, 4\]"):
        ops.roi_align(x, boxes[:, :3], count, 2)
    with pytest.raises(ValueError, match="expected images and boxes in floats of one dtype but got float32 and float64"):
        ops.roi_pool(x, boxes.astype("float64"), count, 2)
    with pytest.raises(ValueError, match="psroi_pool expected images of 0 channels"):
        ops.psroi_pool(x, boxes, count, 3)
    with pytest.raises(ValueError, match=r"expected offset of the shape \[1, 18, 4, 4\] but got"):
        ops.deform_conv2d(x, paddle.zeros([1, 18, 6, 6]), paddle.ones([2, 4, 3, 3]))
    with pytest.raises(ValueError, match="yolo_box expected anchors as pairs and 7 channels for each"):
        ops.yolo_box(x, paddle.to_tensor(np.int32([[9, 9]])), [1, 2, 3], 2, 0.1, 32)


@pytest.mark.parametrize("function", [ops.roi_align, ops.roi_pool, ops.psroi_pool])
def test_each_region_is_of_an_image(function: Any) -> None:
    x, boxes = paddle.ones([2, 4, 6, 6]), paddle.zeros([3, 4])
    assert function(x, boxes, paddle.to_tensor(np.int32([0, 3])), 2).shape[0] == 3
    with pytest.raises(ValueError, match="expected the number of boxes of each of 2 images, boxes_num"):
        function(x, boxes, paddle.to_tensor(np.int32([3])), 2)
    with pytest.raises(ValueError, match="expected as many regions as .* add up to but got 2 more"):
        function(x, boxes, paddle.to_tensor(np.int32([1, 0])), 2)
    with pytest.raises(ValueError, match="add up to but got 1 fewer"):
        function(x, boxes, paddle.to_tensor(np.int32([2, 2])), 2)


def read(x: Any, boxes: Any, count: Any) -> tuple[Any, ...]:
    """What Paddle's operators can say: without rounds."""
    aligned = ops.roi_align(x, boxes, count, 2, 0.5, 2)
    deformed = ops.deform_conv2d(x, paddle.concat([x] * 5, 1)[:, :18], paddle.ones([2, 4, 3, 3]), padding=1)
    return aligned, deformed, ops.psroi_pool(x, boxes, count, 2), ops.prior_box(x, x, 4.0)[0], paddle.abs(paddle.fft.rfft(x, axis=1))


def test_a_static_program_of_free_sizes_is_saved_as_paddles_operators(tmp_path: Path) -> None:
    paddle.enable_static()
    try:
        main = paddle.static.Program()
        with paddle.static.program_guard(main):
            x = paddle.static.data("x", [None, 4, None, None], "float32")
            boxes, count = paddle.static.data("boxes", ["R", 4], "float32"), paddle.static.data("count", ["I"], "int32")
            made = list(read(x, boxes, count))
        executor = paddle.static.Executor()
        paddle.static.save_inference_model(str(tmp_path / "net"), [x, boxes, count], made, executor, program=main)
    finally:
        paddle.disable_static()
    arrays = [drawn(2, 4, 6, 7), boxes_in(3, 6, 7), np.int32([1, 2])]
    found = evaluate(read_model(tmp_path / "net").frozen(), arrays)
    for ours, wanted in zip(found, read(*map(paddle.to_tensor, arrays)), strict=True):
        np.testing.assert_allclose(ours, wanted.numpy(), rtol=1e-5, atol=1e-6)


def test_an_image_is_read_from_its_file(tmp_path: Path) -> None:
    pixels = np.add.outer(np.arange(8) * 9, np.arange(16) * 7).astype("uint8")
    Image.fromarray(np.stack([pixels] * 3, -1)).save(tmp_path / "image.jpg", quality=100)
    data = ops.read_file(str(tmp_path / "image.jpg"))
    assert (data.ndim, data.dtype.name, data.shape[0]) == (1, "uint8", (tmp_path / "image.jpg").stat().st_size)
    for mode, channels in (("unchanged", 3), ("rgb", 3), ("gray", 1)):
        made = ops.decode_jpeg(data, mode).numpy()
        assert made.shape == (channels, 8, 16) and made.dtype == np.uint8
        assert np.abs(made.astype(int) - pixels).max() <= 3
    with pytest.raises(ValueError, match="expected the mode 'unchanged', 'gray' or 'rgb' but got 'blue'"):
        ops.decode_jpeg(data, "blue")
