"""A file with operators that are not here: all of them are told at once, with how often and in which Layers."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import polyreme as paddle
from polyreme.loaders import read_model, uses_of
from polyreme.loaders.errors import LoaderError

MODELS = Path(__file__).parents[1] / "fixtures" / "models"


def forged(folder: Path, name: str, *changes: tuple[str, str]) -> Path:
    """A copy of a model in which operators are called otherwise, by names as long as their own."""
    file = folder / name
    data = (MODELS / name).read_bytes()
    for old, new in changes:
        assert old.encode() in data and len(old) == len(new)
        data = data.replace(old.encode(), new.encode())
    file.write_bytes(data)
    shutil.copy((MODELS / name).with_suffix(".pdiparams"), file.with_suffix(".pdiparams"))
    return file


def test_a_pir_file_tells_all_at_once_with_layers(tmp_path: Path) -> None:
    file = forged(tmp_path, "serving.json", ("1.matmul", "1.matmil"), ('"1.embedding"', '"1.embeddynk"'), ("1.add", "1.foo"))
    with pytest.raises(LoaderError) as caught:
        read_model(file)
    texts = [diagnostic.message for diagnostic in caught.value.diagnostics]
    assert len(texts) == 3 and {d.code for d in caught.value.diagnostics} == {"E0702"}
    assert "the operator 'foo' is not supported" in texts[0] and "(2 times: " in texts[0] and "/Linear" in texts[0]
    assert any("the operator 'matmil' is not supported; did you mean 'matmul'? (in /Linear" in text for text in texts)
    with pytest.raises(LoaderError, match="embeddynk"):
        paddle.inference.create_predictor(paddle.inference.Config(str(file)))


def test_a_legacy_file_tells_all_at_once(tmp_path: Path) -> None:
    file = forged(tmp_path, "serving_legacy.pdmodel", ("matmul_v2", "matmul_v9"), ("lookup_table_v2", "lookup_table_v9"))
    with pytest.raises(LoaderError) as caught:
        read_model(file)
    texts = [diagnostic.message for diagnostic in caught.value.diagnostics]
    assert sorted(name for text in texts for name in ("matmul_v9", "lookup_table_v9") if name in text) == ["lookup_table_v9", "matmul_v9"]
    assert all("did you mean" in text and ", blocks[0].ops[" in text for text in texts)


def test_operators_inside_of_branches_are_seen() -> None:
    names = {use.name for file in MODELS.rglob("*.json") for use in uses_of(file)}
    assert {"pd_op.if", "pd_op.while", "pd_op.matmul"} <= names
    assert not any(use.fault for file in MODELS.glob("serving*") if file.suffix in (".json", ".pdmodel") for use in uses_of(file))
