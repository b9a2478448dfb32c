"""Artifacts: what was saved is loaded, and nothing else is."""

from __future__ import annotations

import copy
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polyreme.lowering.link.artifact import load
from polyreme.runtime.artifact import HEADER, Artifact
from polyreme.runtime.errors import ArtifactError
from polyreme.runtime.files import write_atomically
from polyreme.runtime.manifest.manifest import Manifest
from tests.runtime.native import fixed_artifact, scale_artifact, scale_inputs, scale_manifest, scale_reference


def test_saved_and_loaded_artifacts_are_equal_and_run(tmp_path: Path) -> None:
    path = tmp_path / "scale.artifact"
    scale_artifact().save(path)
    loaded = Artifact.load(path)
    assert loaded == scale_artifact()
    x, b = scale_inputs(5)
    np.testing.assert_array_equal(load(loaded)(x, b), scale_reference(x, b))


def test_equal_artifacts_are_equal_bytes() -> None:
    a = scale_artifact()
    assert a.to_bytes() == Artifact(scale_manifest(), a.code, a.constants).to_bytes()


def test_truncated_files_are_refused_at_every_length() -> None:
    data = fixed_artifact().to_bytes()
    for length in [*range(HEADER.size + 40), *range(HEADER.size + 40, len(data), 37), len(data) - 1]:
        with pytest.raises(ArtifactError):
            Artifact.from_bytes(data[:length])
    with pytest.raises(ArtifactError, match="bytes but got"):
        Artifact.from_bytes(data + b"\0")


@settings(max_examples=200)
@given(st.data())
def test_every_flipped_bit_is_noticed(data: st.DataObject) -> None:
    whole = bytearray(scale_artifact().to_bytes())
    bit = data.draw(st.one_of(st.integers(0, HEADER.size * 8 - 1), st.integers(0, len(whole) * 8 - 1)))
    whole[bit // 8] ^= 1 << bit % 8
    with pytest.raises(ArtifactError):
        Artifact.from_bytes(bytes(whole))


def test_an_error_names_the_file(tmp_path: Path) -> None:
    path = tmp_path / "net.artifact"
    path.write_bytes(b"something else entirely")
    with pytest.raises(ArtifactError, match="net.artifact: expected a polyreme artifact but got 23 bytes"):
        Artifact.load(path)
    with pytest.raises(FileNotFoundError):
        Artifact.load(tmp_path / "missing")


def set_at(data: Any, path: list[Any], value: Any) -> Any:
    data = copy.deepcopy(data)
    at = data
    for step in path[:-1]:
        at = at[step]
    if value is ...:
        del at[path[-1]]
    else:
        at[path[-1]] = value
    return data


FAULTS = [
    (["format"], 2, "format 1 but got format 2"),
    (["name"], 3, "'manifest.name' to be a text"),
    (["name"], ..., "a field 'name' in 'manifest'"),
    (["name"], "x\0y", "'manifest.name' to be a text"),
    (["surprise"], 1, "no other fields in 'manifest'"),
    (["inputs"], {}, "'manifest.inputs' to be a list"),
    (["inputs", 0], [], "'manifest.inputs\\[0\\]' to be an object"),
    (["inputs", 0, "dtype"], "float31", "one of bool, int8"),
    (["inputs", 0, "role"], "output", "one of input, param, packed, state"),
    (["inputs", 0, "shape"], [-1, 4], "to be from 0 to"),
    (["inputs", 0, "shape"], [True, 4], "to be from 0 to"),
    (["inputs", 0, "shape"], [1 << 60], "to be from 0 to"),
    (["inputs", 0, "shape"], [1] * 65, "list of at most 64"),
    (["inputs", 1, "name"], "x", "names of the inputs to differ but got 'x' twice"),
    (["inputs", 1, "shape"], ["M"], "one of the sizes N"),
    (["inputs", 1, "shape"], ["N**2"], "expected"),
    (["inputs", 1, "shape"], ["__import__('os')"], "expected"),
    (["outputs", 0, "shape"], ["N", "N*"], "in the shape of 'y'"),
    (["constants", 0, "offset"], -64, "from 0 to"),
    (["constants", 0, "offset"], 8, "multiple of 64"),
    (["constants", 0, "offset"], 1 << 40, "bytes of constants but got 16"),
    (["constants", 0, "bytes"], 8, "to have 16 bytes but got 8"),
    (["constants", 0, "shape"], [5], "to have 20 bytes but got 16"),
    (["sizes", 0, "name"], "N N", "identifier"),
    (["sizes", 0, "input"], 7, "read from an input but got input 7"),
    (["sizes", 0, "axis"], 1, "to be the size 'N' but got '4'"),
    (["arguments", 0], ["input", 1], "expected the arguments to be"),
    (["arguments", 0], ["scratch", 0], "a kind"),
    (["arguments"], [], "expected the arguments to be"),
    (["target"], None, "'manifest.target' to be an object"),
    (["target", "triple"], 5, "'manifest.target.triple' to be a text"),
    (["extra"], {"a": 1}, "'manifest.extra.a' to be a text"),
    (["updates"], [[0]], r"'manifest.updates\[0\]' to be the numbers of an input and an output"),
    (["updates"], [[0, -1]], r"'manifest.updates\[0\]' to be the numbers of an input and an output"),
    (["updates"], [[0, 9]], "expected an output of the kind of the input that it replaces but got output 9 for input 0"),
    (["updates"], [[1, 0]], "expected an output of the kind of the input that it replaces but got output 0 for input 1"),
]


@pytest.mark.parametrize("path, value, message", FAULTS, ids=lambda x: str(x)[:40])
def test_a_wrong_field_of_the_manifest_is_named(path: list[Any], value: Any, message: str) -> None:
    data = set_at(scale_manifest().to_json(), path, value)
    with pytest.raises(ArtifactError, match=message):
        Artifact(Manifest.from_json(data), b"", bytes(16))


def test_manifests_read_back_what_they_write() -> None:
    manifest = scale_manifest()
    assert Manifest.from_bytes(manifest.to_bytes()) == manifest


@pytest.mark.parametrize("data", [b"", b"[]", b"null", b"{", b"\xff\xfe", b"[" * 100_000, b"9" * 10_000, b'{"format": true}'], ids=str)
def test_what_is_no_manifest_is_refused(data: bytes) -> None:
    with pytest.raises(ArtifactError):
        Manifest.from_bytes(data)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda x: st.lists(x, max_size=3) | st.dictionaries(st.text(max_size=5), x, max_size=3),
    max_leaves=5,
)


@settings(max_examples=200)
@given(st.sampled_from(FAULTS), json_values)
def test_any_json_in_any_field_is_read_or_refused(fault: tuple[list[Any], Any, str], value: Any) -> None:
    data = set_at(scale_manifest().to_json(), fault[0], value)
    try:
        manifest = Manifest.from_json(data)
    except ArtifactError:
        return
    assert Manifest.from_bytes(manifest.to_bytes()) == manifest


def test_code_for_another_machine_is_refused() -> None:
    for triple, message in [
        ("sparc64-unknown-linux-gnu", "code for sparc64"),
        ("x86_64-pc-windows-msvc", "expected code for"),
        ("", "expected code for"),
    ]:
        manifest = Manifest.from_json(set_at(fixed_artifact().manifest.to_json(), ["target", "triple"], triple))
        with pytest.raises(ArtifactError, match=message):
            load(Artifact(manifest, fixed_artifact().code))


def test_an_interrupted_write_keeps_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file"
    write_atomically(path, b"old")

    def broken(*_: object) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(os, "replace", broken)
    with pytest.raises(OSError, match="no space left"):
        write_atomically(path, b"new")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]
