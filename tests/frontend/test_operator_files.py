"""A program of one operator each, as Paddle 3.3.1 writes it, loads and gives what Paddle computed (`fixtures/make_operator_files.py`)."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from polyreme.ir.evaluate import evaluate
from polyreme.loaders import read_model
from tests.frontend.test_operator_values import TABLES, VALUES

FILES: dict[str, Any] = json.loads(gzip.decompress((Path(__file__).parents[1] / "fixtures/operator_files.json.gz").read_bytes()))


def case_of(key: str) -> Any:
    name, number = key.split(" ")
    return TABLES[name][int(number)]


def operators_in(program: Any) -> set[str]:
    return {op["#"].partition(".")[2] for op in program["program"]["regions"][0]["blocks"][0]["ops"]}


@pytest.mark.parametrize("key", FILES, ids=lambda key: case_of(key).type)
def test_a_file_of_one_operator_gives_what_paddle_gives(key: str, tmp_path: Path) -> None:
    case = case_of(key)
    path = tmp_path / "net.json"
    path.write_text(json.dumps(FILES[key]), encoding="utf-8")
    results = evaluate(read_model(path).frozen(), [array for arrays in case.arrays().values() for array in arrays])
    for i, result in enumerate(results):
        theirs = VALUES[f"{key}.{i}"]
        assert (result.shape, result.dtype) == (theirs.shape, theirs.dtype)
        np.testing.assert_allclose(result, theirs, rtol=2e-4, atol=2e-5)
    assert f"{key}.{len(results)}" not in VALUES
