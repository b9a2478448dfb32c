"""The inference benchmark: its models, its three steps with our own library alone, and its tables."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np
import pytest

import polyreme as paddle
from benchmarks.inference import Store, cache_of, chosen_rows, latency_table, place_of, run_row, start_table
from benchmarks.zoo import MODELS, draw_inputs, draw_weights, load_weights

WANTED = [
    "resnet50",
    "resnet18",
    "vgg16",
    "mobilenet_v2",
    "mobilenet_v3_large",
    "bert-base 128",
    "bert-base 384",
    "vit-b16",
    "gpt2-small decode",
    "lstm 256x64",
    "gru 256x64",
]


def options(folder: Path, **changed: object) -> argparse.Namespace:
    given = {
        "folder": folder,
        "steps": ["files", "compile", "time"],
        "turn": 0.01,
        "rounds": 2,
        "laps": 2,
        "within": 1e-4,
        "patience": 60.0,
        "models": [],
        "threads": [1],
        "batches": None,
    }
    return argparse.Namespace(**{**given, **changed})


def test_the_models_of_the_table_are_there_and_make_their_inputs() -> None:
    assert set(WANTED) <= set(MODELS)
    for model in MODELS.values():
        made = draw_inputs(model, 2)
        assert [(name, list(a.shape), a.dtype.name) for name, a in made.items()] == model.shapes(2)


def test_weights_are_the_same_for_whoever_draws_them_and_fit_the_layer() -> None:
    model = MODELS["LeNet"]
    layer = model.build(paddle)
    shapes = {name: tuple(p.shape) for name, p in layer.state_dict().items()}
    first, second = draw_weights(shapes), draw_weights(shapes)
    assert all(np.array_equal(first[name], second[name]) and first[name].dtype == np.float32 for name in shapes)
    load_weights(layer, first, paddle)
    x = draw_inputs(model, 3)["x"]
    y = layer(paddle.to_tensor(x)).numpy()
    assert np.isfinite(y).all() and 1e-3 < np.abs(y).mean() < 1e3
    with pytest.raises(SystemExit, match="name their weights differently"), pytest.warns(UserWarning):
        load_weights(layer, {"other": first[next(iter(first))]}, paddle)


def test_a_row_goes_through_all_steps_and_its_figures_are_kept(tmp_path: Path) -> None:
    store = Store(tmp_path / "figures.json")
    model = MODELS["LeNet"]
    kept = cache_of(place_of(tmp_path, model, 1), 1) / "polyreme"

    def entries() -> dict[Path, int]:
        # An entry that is written anew is another file.
        return {path: path.stat().st_ino for path in kept.glob("??/*")}

    run_row(model, 1, 1, {"polyreme": sys.executable}, options(tmp_path, steps=["files", "compile"]), store)
    compiled = entries()
    run_row(model, 1, 1, {"polyreme": sys.executable}, options(tmp_path, steps=["time"]), store)
    found = entries()
    assert compiled and compiled.items() <= found.items(), "the second start finds compiled code in the cache"
    # The model's file may have been too young before for its digest to be remembered.
    assert all(path.stat().st_size < 512 for path in found.keys() - compiled.keys())
    assert (place_of(tmp_path, model, 1) / "model.polyreme").exists()
    (row,) = Store(tmp_path / "figures.json").rows.values()
    ours, cold = row["latencies"]["polyreme"], row["cold"]["polyreme"]
    assert row["model"] == model.name and ours["calls"] >= 8 and 0 < ours["best"] <= ours["p10"]
    assert ours["compile_s"] > 0 and cold["compile_s"] > 0
    assert start_table([row], ["polyreme"]).splitlines()[-1].startswith(f"| {model.name} | 1 | 1 | ")


def test_rows_are_models_by_batches_by_threads() -> None:
    rows = [(m.name, batch, threads) for m, batch, threads in chosen_rows(options(Path(), models=["resnet18", "LeNet"], threads=[1, 2]))]
    assert rows == [("resnet18", 1, 1), ("resnet18", 1, 2), ("resnet18", 16, 1), ("resnet18", 16, 2), ("LeNet", 1, 1), ("LeNet", 1, 2)]
    assert len(list(chosen_rows(options(Path(), models=["resnet18"], batches=[16])))) == 1


def test_a_store_adds_to_a_row_what_is_new_of_it(tmp_path: Path) -> None:
    store = Store(tmp_path / "figures.json")
    row = {"model": "LeNet", "batch": 1, "threads": 1}
    store.add({**row, "cold": {}})
    store.add({**row, "ratio": 2.0})
    store.add({**row, "model": "resnet50"})
    assert [r["model"] for r in Store(store.path).ordered()] == ["resnet50", "LeNet"]
    assert store.rows["LeNet", 1, 1] == {**row, "cold": {}, "ratio": 2.0}


def test_the_table_marks_rows_whose_rounds_do_not_agree() -> None:
    row = {
        "model": "LeNet",
        "batch": 1,
        "threads": 2,
        "latencies": {"polyreme": {"p10": 0.001}, "paddle": {"p10": 0.002}},
        "ratios": [1.5, 2.0, 2.5],
        "ratio": 2.0,
        "spread": 0.5,
    }
    assert (
        latency_table([row], ["polyreme", "torch", "paddle"]).splitlines()[-1] == "| LeNet | 1 | 2 | 1 |  | 2 | **2.00** ~ | 1.50 to 2.50 |"
    )
    assert " ~ " not in latency_table([{**row, "spread": 0.1}], ["polyreme"])
