"""Objects put into this process's memory."""

import subprocess
import sys

import pytest

# The memory of a process with much in it: what is free lies in holes of some pages, gigabytes apart, so that two pieces of one object that
# are asked for one by one would lie further from each other than its instructions reach. Nothing of it is touched, so nothing is used up.
SCATTERED = """
import mmap
import random

import numpy as np

from polyreme.ir.text import parse_module
from polyreme.lowering.link.artifact import build_artifact, load
from polyreme.lowering.machines.targets import host
from polyreme.lowering.pipeline import lower
from polyreme.lowering.schedule.bufferize import outline_constants

module = lower(parse_module('''
func @main(%x: tensor<5x40xf32>, %a: tensor<40x50xf32>, %b: tensor<50x30xf32>) -> tensor<5x30xf32> {
  %y = nn.linear %x, %a : tensor<5x50xf32>
  %h = nn.tanh %y : tensor<5x50xf32>
  %z = nn.linear %h, %b : tensor<5x30xf32>
  return %z
}
'''))
outline_constants(module)
artifact = build_artifact(module, host())
numbers = np.random.default_rng(1)
x, a, b = (numbers.standard_normal(shape).astype(np.float32) for shape in ((5, 40), (40, 50), (50, 30)))
want = np.tanh(x.astype(np.float64) @ a) @ b

draw = random.Random(0)
kept, holes = [], []
for _ in range(6000):
    kept.append(mmap.mmap(-1, 1 << 20))
    holes.append(mmap.mmap(-1, mmap.PAGESIZE * draw.choice([1, 2, 4, 8, 16])))
draw.shuffle(holes)
for _ in range(60):
    for _ in range(3):
        holes.pop().close()
    loaded = load(artifact)
    kept.append(loaded)
    np.testing.assert_allclose(loaded.run([x, a, b])[0], want, rtol=1e-4, atol=1e-4)
print("loaded")
"""


SPLIT = """
from dataclasses import replace
from polyreme.lowering.link import objects

objects.COMPILE_COSTS = replace(objects.COMPILE_COSTS, fork=0)
"""


@pytest.mark.parametrize("split", [False, True], ids=["one object", "an object for each kernel"])
def test_code_is_loaded_wherever_there_is_memory(split):
    edit = SPLIT if split else ""
    done = subprocess.run([sys.executable, "-c", edit + SCATTERED], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout) == (0, "loaded\n"), done.stderr
