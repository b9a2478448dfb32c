"""Fuzzing: mutated texts, random modules, random functions and mutated model files, with a time limit for each.

    python -m tests.fuzz --texts 200000 --modules 20000 --functions 1000 --seed 1
    python -m tests.fuzz --texts 200000 --modules 20000 --minutes 5     # as many of them as 5 minutes allow; functions only where asked for
    python -m tests.fuzz --texts 0 --modules 0 --models 100000          # mutants of model files only
    python -m tests.fuzz --seed 1 --show 4711                           # the text of one case
    python -m tests.fuzz --seed 1 --show-function 12                    # the module of one function
    python -m tests.fuzz --seed 1 --write-model 5 FOLDER                # the files of one model

A text is refused by the parser, found invalid by the verifier, or valid; then it has to survive printing and reading back in every form.
Every rejection has to say a position in the text. A random module has to verify, to survive the same, and to compute the same afterwards.
Nothing may raise another exception than the framework's own, or take more than a second. A random function of Python's has to be the same
eagerly and with `to_static`. A model's files are read or refused with the file's name, within ten seconds and so much memory.

The same seed makes the same cases. Of each kind of fault the first is kept, made as small as it goes, in the folder `--out`. The exit code
is 1 when there was any.
"""

import argparse
import hashlib
import os
import re
import sys
import time
from collections import Counter
from pathlib import Path

from tests.fuzz.cases import BATCH, Outcome
from tests.fuzz.functions import written
from tests.fuzz.models import mutated_model
from tests.fuzz.pool import run_cases
from tests.fuzz.texts import corpus, mutated

SUFFIXES = {"functions": ".py", "models": ".model"}


class Report:
    """What was met so far; prints progress, and each new kind of fault once."""

    def __init__(self, out: Path):
        self.out = out
        self.faults: Counter[str] = Counter()
        self.lines: list[str] = []

    def run(self, kind: str, unit: int, seed: int, count: int, workers: int, deadline: float) -> None:
        counts: Counter[str] = Counter()
        slowest, slowest_number, told, start = 0.0, 0, 0.0, time.monotonic()
        for number, outcome, seconds in run_cases(kind, seed, -(-count // unit), workers, deadline):
            counts += outcome.counts
            if seconds > slowest:
                slowest, slowest_number = seconds, number
            if outcome.fault:
                self.fault(kind, number, outcome)
            if time.monotonic() - told > 10:
                told = time.monotonic()
                print(
                    f"{kind}: {counts.total()} of {count}, {self.faults.total()} faults, {told - start:.0f} s", file=sys.stderr, flush=True
                )
        done = ", ".join(f"{n} {what}" for what, n in sorted(counts.items()))
        took = time.monotonic() - start
        each = "" if unit == 1 else f" of {unit}"
        self.lines.append(
            f"{kind}: {counts.total()} of {count} in {took:.0f} s ({done}); slowest case{each} {slowest:.2f} s (number {slowest_number})"
        )

    def fault(self, kind: str, number: int, outcome: Outcome) -> None:
        self.faults[outcome.fault] += 1
        if self.faults[outcome.fault] > 1:
            return
        self.out.mkdir(parents=True, exist_ok=True)
        name = re.sub(r"\W+", "-", outcome.fault)[:60].strip("-")
        path = self.out / f"{name}-{hashlib.sha256(outcome.fault.encode()).hexdigest()[:6]}{SUFFIXES.get(kind, '.tir')}"
        path.write_text(outcome.text, encoding="utf-8", errors="surrogatepass")
        path.with_suffix(".txt").write_text(
            f"{kind}, number {number}: {outcome.fault}\n{outcome.details}", encoding="utf-8", errors="backslashreplace"
        )
        print(f"fault in {kind}, number {number}: {outcome.fault}; kept in {path}", file=sys.stderr, flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--texts", type=int, default=200_000)
    parser.add_argument("--modules", type=int, default=20_000)
    parser.add_argument("--functions", type=int, default=0, help="each takes about a second (default: none)")
    parser.add_argument("--models", type=int, default=0, help="mutants of model files (default: none)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, help="stop after this long, with what was done until then")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--out", type=Path, default=Path("fuzz-faults"))
    parser.add_argument("--show", type=int, metavar="NUMBER", help="print the text of one case, and nothing else")
    parser.add_argument("--show-function", type=int, metavar="NUMBER", help="print the module of one random function, and nothing else")
    parser.add_argument("--write-model", nargs=2, metavar=("NUMBER", "FOLDER"), help="write the files of one model, and nothing else")
    options = parser.parse_args()
    if options.show is not None:
        sys.stdout.buffer.write(mutated(options.seed, options.show).encode("utf-8", "surrogatepass"))
        return 0
    if options.show_function is not None:
        print(written(options.seed, options.show_function), end="")
        return 0
    if options.write_model is not None:
        number, folder = options.write_model
        Path(folder).mkdir(parents=True, exist_ok=True)
        print(mutated_model(options.seed, int(number)).write(Path(folder)))
        return 0
    report = Report(options.out)
    start = time.monotonic()
    seconds = options.minutes * 60 if options.minutes else float("inf")
    print(f"seed {options.seed}, {options.workers} workers, {len(corpus())} texts to start from", flush=True)
    # Each kind has a share of the minutes; what one leaves of it is the next one's.
    kinds = [
        (kind, unit, count, share)
        for kind, unit, count, share in [
            ("texts", 1, options.texts, 5),
            ("modules", BATCH, options.modules, 3),
            ("functions", 1, options.functions, 2),
            ("models", 1, options.models, 3),
        ]
        if count
    ]
    end = 0.0
    for kind, unit, count, share in kinds:
        end += share / sum(s for *_, s in kinds)
        report.run(kind, unit, options.seed, count, options.workers, start + end * seconds)
    print("\n".join(report.lines))
    for fault, count in report.faults.most_common():
        print(f"{count:7} x {fault}")
    print("no faults" if not report.faults else f"{report.faults.total()} faults of {len(report.faults)} kinds")
    return 1 if report.faults else 0


if __name__ == "__main__":
    sys.exit(main())
