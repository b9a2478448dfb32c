"""Files that Paddle saves of one function: they load, run at several sizes and as libraries, and give what Paddle gives."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import polyreme as paddle
from polyreme.operators.table import apply_legacy

FILES = json.loads(gzip.decompress((Path(__file__).parents[1] / "fixtures" / "function_files.json.gz").read_bytes()))


def written(name: str, folder: Path) -> Path:
    path = folder / "net.json"
    path.write_text(json.dumps(FILES[name]["program"]), encoding="utf-8")
    return path


def agree(made: Any, call: Any) -> None:
    results = [np.asarray(one) for one in (made if isinstance(made, (list, tuple)) else [made])]
    assert len(results) == len(call["results"])
    for result, (dtype, shape, values) in zip(results, call["results"], strict=True):
        assert (result.dtype.name, list(result.shape)) == (dtype, shape)
        np.testing.assert_allclose(result.ravel().astype("float64"), np.array(values, "float64"), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", FILES)
def test_a_file_of_one_function_gives_what_paddle_gives(name: str, tmp_path: Path) -> None:
    net = paddle.jit.load(written(name, tmp_path))
    for call in FILES[name]["calls"]:
        made = net(paddle.to_tensor(np.array(call["x"], "float32")))
        agree([one.numpy() for one in made] if isinstance(made, (list, tuple)) else made.numpy(), call)


IN_LIBRARIES = (
    "adaptive_max_pool", "clip_whole", "corrcoef", "cummax", "cumprod", "det", "fold", "histogram_of_all", "i1", "kthvalue", "logcumsumexp",
    "median_along", "mode", "segment_max", "shift_right_of_bits", "trace",
)  # fmt: skip


@pytest.mark.parametrize("name", IN_LIBRARIES)
def test_a_library_of_one_function_gives_what_paddle_gives(name: str, tmp_path: Path) -> None:
    library = paddle.compile(paddle.jit.load(written(name, tmp_path)), tmp_path / "net.so")
    for call in FILES[name]["calls"]:
        agree(library(np.array(call["x"], "float32")), call)


def test_infinities_beside_the_diagonal_are_no_part_of_the_trace() -> None:
    x = paddle.to_tensor(np.array([[1.0, np.inf], [-np.inf, 2.0]], "float32"))
    assert float(paddle.trace(x)) == 3.0
    assert float(paddle.jit.to_static(paddle.trace)(x)) == 3.0


def test_volumes_are_unpooled_to_where_their_maxima_stood() -> None:
    x = np.random.default_rng(0).permutation(2 * 3 * 4 * 6 * 4).reshape(2, 3, 4, 6, 4).astype("float32")
    made, places = paddle.nn.functional.max_pool3d(paddle.to_tensor(x), 2, 2, return_mask=True)
    attributes = {"ksize": [2] * 3, "strides": [2] * 3, "paddings": [0] * 3, "unpooling_type": "max", "output_size": [4, 6, 4]}
    back = apply_legacy("unpool3d", {"X": [made], "Indices": [places]}, attributes)["Out"][0].numpy()
    np.testing.assert_array_equal(back, np.where(np.isin(x, made.numpy()), x, 0))
