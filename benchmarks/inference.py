"""Latency, compile time and memory of Polyreme and its peers on the same weights, interleaved.

    python -m benchmarks.inference FOLDER --python onnxruntime=../peers/bin/python torch=../torch/bin/python --markdown table.md

Three steps, each of which may run alone (`--steps`): *files* writes each model for every library into FOLDER; *compile* starts each library
with an empty cache and notes how long it takes to be ready and its memory; *time* starts them again, compares results and times calls in
turns. Figures gather in FOLDER/figures.json.

`polyreme/peers` has the libraries' settings (`runner.py`) and how turns become figures (`compare.py`).
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import int8
from benchmarks.tables import table
from benchmarks.zoo import MODELS, Model, draw_inputs, draw_weights, load_weights
from polyreme.peers.compare import LARGEST_DIFFERENCE, LARGEST_SPREAD, OURS, PEERS, Comparison, LibraryError, Race, Worker
from polyreme.peers.files import write_files

ATTEMPTS = 3
Figures = dict[str, Any]


def place_of(folder: Path, model: Model, batch: int) -> Path:
    """Where the files of one model at one batch size stand."""
    return folder / f"{model.name.replace(' ', '-')}-{batch}"


def make_files(model: Model, batch: int, place: Path, libraries: Mapping[str, str]) -> None:
    """The model with the same weights for every library."""
    import polyreme as paddle
    from polyreme.compiled.inspection import model_module

    place.mkdir(parents=True, exist_ok=True)
    if model.int8:
        int8.make_files(model, batch, place, libraries)
        return
    layer = model.build(paddle)
    weights = draw_weights({name: tuple(p.shape) for name, p in layer.state_dict().items()})
    load_weights(layer, weights, paddle)
    spec = [paddle.static.InputSpec(shape, dtype, name) for name, shape, dtype in model.shapes(batch)]
    paddle.jit.save(layer, str(place / "model"), input_spec=spec)
    write_files(model_module(layer, spec, freeze=True), list(draw_inputs(model, batch).values()), place, list(libraries))
    if "paddle" in libraries:
        np.savez(place / "weights.npz", **weights)
        command = [libraries["paddle"], "-m", "benchmarks.zoo", model.name, str(batch), str(place)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(f"Paddle does not write {model.name}:\n{done.stderr[-2000:]}")
        (place / "weights.npz").unlink()
    (place / "complete").touch()


def compile_cold(place: Path, threads: int, libraries: Mapping[str, str], patience: float) -> Figures:
    """For each library, what getting ready takes when nothing was compiled before; what it compiles stays for the next start."""
    cold = {}
    for library, python in libraries.items():
        cache = cache_of(place, threads) / library
        shutil.rmtree(cache, ignore_errors=True)
        worker = Worker(library, threads, python)
        try:
            cold[library] = worker.ask(patience, do="prepare", folder=str(place), cache=str(cache))
        except LibraryError as error:
            cold[library] = {"error": error.message}
        finally:
            worker.stop()
    return cold


def cache_of(place: Path, threads: int) -> Path:
    """Where libraries keep what they compiled."""
    return place / f"cache-{threads}"


def time_rounds(race: Race, seconds: float, rounds: int, laps: int) -> Comparison:
    """The comparison whose rounds agree best, of as many as it takes for them to agree well, `ATTEMPTS` at most."""
    found = race.run(seconds, rounds, laps)
    for _ in range(ATTEMPTS - 1):
        if not found.ratios or found.spread <= LARGEST_SPREAD:
            break
        made = race.run(seconds, rounds, laps)
        if made.spread < found.spread:
            found = made
    return found


def figures_of(found: Comparison) -> Figures:
    """A comparison as plain data."""
    figures: Figures = {"latencies": {library: asdict(latency) for library, latency in found.latencies.items()}, "faults": found.faults}
    return {**figures, "ratios": found.ratios, "ratio": found.ratio, "spread": found.spread} if found.ratios else figures


# --- tables


def latency_table(figures: Sequence[Figures], libraries: Sequence[str]) -> str:
    """Tenth percentiles in milliseconds, and best peer / ours: above 1 is ahead. A ~ stands where rounds do not agree."""
    head = ["model", "batch", "threads", *(f"{library} ms" for library in libraries), "best peer / ours", "lowest to highest round"]
    rows = []
    for row in figures:
        times = row.get("latencies", {})
        if not row.get("ratios"):
            continue
        mark = " ~" if row["spread"] > LARGEST_SPREAD else ""
        cells = [f"{times[library]['p10'] * 1e3:.4g}" if library in times else "" for library in libraries]
        rows.append(
            [
                row["model"],
                row["batch"],
                row["threads"],
                *cells,
                f"**{row['ratio']:.2f}**{mark}",
                f"{min(row['ratios']):.2f} to {max(row['ratios']):.2f}",
            ]
        )
    return table(head, rows)


def start_table(figures: Sequence[Figures], libraries: Sequence[str]) -> str:
    """Seconds from the file to the first result, without and with what the library keeps of an earlier start, and the most memory of the
    latter process.
    """
    head = ["model", "batch", "threads", *(f"{library}: s, again s, MiB" for library in libraries)]
    rows = []
    for row in figures:
        cold, warm = row.get("cold", {}), row.get("latencies", {})
        cells = []
        for library in libraries:
            first, again = cold.get(library, {}), warm.get(library)
            cells.append(", ".join([f"{first['compile_s'] + first['first_s']:.2f}" if "compile_s" in first else "", *_again(again)]))
        rows.append([row["model"], row["batch"], row["threads"], *cells])
    return table(head, rows)


def _again(latency: Mapping[str, Any] | None) -> list[str]:
    return ["", ""] if latency is None else [f"{latency['compile_s'] + latency['first_s']:.2f}", f"{latency['peak_mib']:.0f}"]


# --- the command


class Store:
    """The figures of all rows, in a file that is written after each."""

    def __init__(self, path: Path):
        self.path = path
        self.rows: dict[tuple[Any, ...], Figures] = {}
        if path.exists():
            self.rows = {self.key(row): row for row in json.loads(path.read_text())}

    @staticmethod
    def key(row: Figures) -> tuple[Any, ...]:
        return row["model"], row["batch"], row["threads"]

    def add(self, row: Figures) -> None:
        """Enter what is new of a row."""
        self.rows[self.key(row)] = {**self.rows.get(self.key(row), {}), **row}
        self.path.write_text(json.dumps(list(self.rows.values()), indent=1))

    def ordered(self) -> list[Figures]:
        """The rows in the order of the models."""
        names = list(MODELS)
        return sorted(self.rows.values(), key=lambda row: (names.index(row["model"]), row["batch"], row["threads"]))


def chosen_rows(options: argparse.Namespace) -> Iterator[tuple[Model, int, int]]:
    for name in options.models:
        for batch in MODELS[name].batches:
            for threads in options.threads:
                if not options.batches or batch in options.batches:
                    yield MODELS[name], batch, threads


def run_row(model: Model, batch: int, threads: int, libraries: Mapping[str, str], options: argparse.Namespace, store: Store) -> None:
    """The steps of one row; what it finds goes to the store."""
    place = place_of(options.folder, model, batch)
    if model.int8:
        libraries = int8.libraries_of(libraries)
    if "files" in options.steps and not (place / "complete").exists():
        make_files(model, batch, place, libraries)
    row: Figures = {"model": model.name, "batch": batch, "threads": threads}
    if "compile" in options.steps:
        store.add({**row, "cold": compile_cold(place, threads, libraries, options.patience)})
    if "time" in options.steps:
        reference, within = int8.reference(place) if model.int8 else (None, options.within)
        with Race(place, libraries, threads, cache_of(place, threads), reference, within) as race:
            found = time_rounds(race, options.turn, options.rounds, options.laps)
        row |= figures_of(found) | (int8.agreements(place) if model.int8 else {})
        store.add(row)
        notes = [f"{library}: {note}" for library, latency in found.latencies.items() for note in latency.notes]
        print(latency_table([row], list(libraries)).splitlines()[-1], *found.faults.values(), *notes, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="where files, caches and figures are kept")
    parser.add_argument("--models", nargs="+", default=list(MODELS), choices=list(MODELS))
    parser.add_argument("--batches", nargs="+", type=int, help="only these")
    parser.add_argument("--threads", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--steps", nargs="+", default=["files", "compile", "time"], choices=["files", "compile", "time"])
    parser.add_argument("--peers", nargs="*", default=list(PEERS), choices=PEERS)
    parser.add_argument(
        "--python",
        nargs="+",
        default=[],
        metavar="PEER=PYTHON",
        help="the Python that has a peer installed, if it is another one than this",
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--laps", type=int, default=8, help="turns that each library has in a round")
    parser.add_argument(
        "--turn",
        type=float,
        default=0.1,
        help="seconds of a turn, two calls at least: in short ones all libraries meet the same state of a shared machine",
    )
    parser.add_argument(
        "--within",
        type=float,
        default=LARGEST_DIFFERENCE,
        help="how far results may differ, for a network that magnifies roundings until the peers themselves differ more",
    )
    parser.add_argument("--patience", type=float, default=600.0, help="seconds that a library may take to get ready")
    parser.add_argument("--markdown", type=Path, help="write the tables here")
    options = parser.parse_args()
    pythons = dict(text.split("=", 1) for text in options.python)
    libraries = {OURS: sys.executable, **{peer: pythons.get(peer, sys.executable) for peer in options.peers}}
    options.folder.mkdir(parents=True, exist_ok=True)
    store = Store(options.folder / "figures.json")
    failed = False
    for model, batch, threads in chosen_rows(options):
        try:
            run_row(model, batch, threads, libraries, options, store)
        except LibraryError as error:
            failed = True
            print(f"{model.name}, batch {batch}, {threads} threads: {error.message}", file=sys.stderr, flush=True)
    tables = f"{latency_table(store.ordered(), list(libraries))}\n\n{start_table(store.ordered(), list(libraries))}\n"
    quantised = [row for row in store.ordered() if MODELS[row["model"]].int8 and row.get("ratios")]
    if quantised:
        tables += f"\n{table(*int8.columns(quantised))}\n"
    if options.markdown:
        options.markdown.write_text(f"{tables}\nMeasured on {os.cpu_count()} cores.\n")
    print(tables)
    raise SystemExit(int(failed))


if __name__ == "__main__":
    main()
