"""Code kept as a shared object: loads without LLVM, shares one pool, is unloaded when nobody uses it."""

import gc
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from polyreme.lowering.link import artifact
from polyreme.runtime.artifact import Artifact
from polyreme.runtime.errors import ArtifactError
from polyreme.runtime.shared_code import is_shared, load_shared
from tests.runtime.native import scale_artifact


def mapped():
    """The shared objects of ours that are in memory."""
    with open("/proc/self/maps") as file:
        return {line.split(maxsplit=5)[5].strip() for line in file if "/polyreme-" in line}


def test_a_linked_artifact_computes_the_same():
    plain = artifact.load(scale_artifact())
    linked = artifact.linked(scale_artifact())
    assert is_shared(linked) and not is_shared(scale_artifact())
    x = [
        np.full(spec.shape if spec.is_static else [3 if isinstance(n, str) else n for n in spec.shape], 2.0, spec.dtype)
        for spec in plain.manifest.inputs
    ]
    for a, b in zip(plain.run(x), load_shared(Artifact.from_bytes(linked.to_bytes()), 2).run(x), strict=True):
        np.testing.assert_array_equal(a, b)


def test_models_share_the_pool_of_the_process():
    linked = artifact.linked(scale_artifact())
    assert load_shared(linked, 1).pool is load_shared(linked, 1).pool is artifact.load(scale_artifact()).pool


@pytest.mark.usefixtures("only_new_garbage")
def test_code_leaves_memory_with_its_last_user():
    before = mapped()
    first = load_shared(artifact.linked(scale_artifact()), 1)
    second = load_shared(artifact.linked(scale_artifact()), 1)
    # The pool may live in the first one ever loaded.
    assert len(mapped() - before) == 2
    del second
    gc.collect()
    assert len(mapped() - before) == 1
    del first


def test_it_loads_where_llvm_is_not(tmp_path):
    program = """
import sys
sys.modules["llvmlite"] = None
import numpy as np
from polyreme.runtime.artifact import Artifact
from polyreme.runtime.shared_code import load_shared
model = load_shared(Artifact.load(sys.argv[1]), 1)
shapes = [[3 if isinstance(n, str) else n for n in spec.shape] for spec in model.manifest.inputs]
model.run([np.ones(shape, spec.dtype) for shape, spec in zip(shapes, model.manifest.inputs)])
assert not any(name.startswith("polyreme.lowering") for name in sys.modules)
"""
    path = tmp_path / "scale.artifact"
    artifact.linked(scale_artifact()).save(path)
    subprocess.run([sys.executable, "-c", program, path], check=True)


def test_without_a_linker_the_artifact_stays_as_it_was(monkeypatch):
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    plain = scale_artifact()
    assert artifact.linked(plain) is plain


def test_code_that_is_no_shared_object_is_an_error():
    with pytest.raises(ArtifactError, match="the system cannot load it"):
        load_shared(replace(artifact.linked(scale_artifact()), code=b"\x7fELF nothing"), 1)
    with pytest.raises(ArtifactError, match="expected a function 'polyreme_model_run'"):
        linked = artifact.linked(scale_artifact())
        load_shared(replace(linked, code=linked.code.replace(b"polyreme_model_run", b"polyreme_model_fun")), 1)
