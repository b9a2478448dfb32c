"""MobileNetV2 as a library, as servers have it: small, there at once, and of flat memory under many shapes and threads."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import polyreme as paddle
from polyreme.runtime.library import read_library

pytestmark = pytest.mark.slow

THREADS, CALLS, SHAPES = 4, 10_000, 50


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("mobilenet")
    paddle.seed(1)
    net = paddle.vision.models.mobilenet_v2()
    net.eval()
    path = folder / "net.so"
    paddle.compile(net, path, input_spec=[paddle.static.InputSpec([None, 3, None, None], "float32", "x")])
    return path


def test_its_code_is_small(library: Path) -> None:
    assert library.stat().st_size - read_library(library).manifest.constant_bytes < 1 << 20


FIRST = """
#include <stdio.h>
#include <stdlib.h>
#include "net.h"
int main(void) {
  int64_t shape[4] = {1, 3, 224, 224};
  const int64_t *shapes[1] = {shape};
  float *x = calloc(3 * 224 * 224, sizeof(float)), out[1000];
  const void *inputs[1] = {x};
  void *outputs[1] = {out};
  const char *error = NULL;
  net_model *model = net_create(1, &error);
  if (model == NULL || net_run(model, inputs, shapes, outputs) != 0) return 1;
  printf("%g\\n", out[0]);
  net_destroy(model);
  free(x);
  return 0;
}
"""


@pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc")
def test_the_first_result_is_there_at_once(library: Path) -> None:
    """From the start of a C program to its end, in processor time, so that a busy machine does not count."""
    folder = library.parent
    (folder / "first.c").write_text(FIRST)
    subprocess.run(["gcc", "-O1", "first.c", "./net.so", "-lm", "-Wl,-rpath,$ORIGIN", "-o", "first"], cwd=folder, check=True)

    def seconds() -> float:
        before = os.times()
        subprocess.run(["./first"], cwd=folder, check=True, stdout=subprocess.DEVNULL)
        after = os.times()
        return after.children_user + after.children_system - before.children_user - before.children_system

    took = min(seconds() for _ in range(8))
    assert took < 0.05, took


def _resident() -> int:
    with open("/proc/self/statm") as stream:
        return int(stream.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_memory_is_flat_under_many_shapes_and_threads(library: Path) -> None:
    native = ctypes.CDLL(str(library))
    native.net_create.restype = ctypes.c_void_p
    model = ctypes.c_void_p(native.net_create(1, None))
    rng = np.random.default_rng(1)
    sizes = [(1 + i % 2, 3, 32 + int(rng.integers(0, 33)), 32 + int(rng.integers(0, 33))) for i in range(SHAPES)]
    inputs = [rng.standard_normal(size).astype("float32") for size in sizes]

    def run(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        out = np.empty((x.shape[0], 1000), "float32")
        shape = (ctypes.c_int64 * 4)(*x.shape)
        one = ctypes.c_void_p * 1
        assert native.net_run(model, one(x.ctypes.data), one(ctypes.addressof(shape)), one(out.ctypes.data)) == 0
        return out

    expected = [run(x) for x in inputs]
    wrong: list[int] = []
    numbers = iter(range(CALLS))
    lock = threading.Lock()

    def serve(until: int) -> None:
        while True:
            with lock:
                number = next(numbers, CALLS)
            if number >= CALLS:
                return
            which = number * 7 % SHAPES
            if not np.array_equal(run(inputs[which]), expected[which]):
                wrong.append(number)
            if number >= until:
                return

    def serve_all(until: int) -> None:
        threads = [threading.Thread(target=serve, args=(until,)) for _ in range(THREADS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    serve_all(CALLS // 5)
    before = _resident()
    serve_all(CALLS)
    native.net_destroy(model)
    assert not wrong
    assert _resident() - before < 8 << 20
