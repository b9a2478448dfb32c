"""The command: see the package."""

from __future__ import annotations

import argparse
import sys

from tests.goldens.compare import FILE, MACHINES, SCHEDULES, differing, read, read_choices, rows, texts, write, write_choices
from tests.goldens.networks import NETWORKS


def main() -> int:
    """0 where nothing differs."""
    parser = argparse.ArgumentParser(prog="python -m tests.goldens")
    parser.add_argument("--write", action="store_true", help="write the files anew")
    parser.add_argument("--text", nargs=2, metavar=("NETWORK", "MACHINE"), help="print the kernels of one network for one machine")
    parser.add_argument("--only", default="", help="networks with this in their name")
    options = parser.parse_args()
    if options.text:
        network = next(n for n in NETWORKS if n.name == options.text[0])
        for text in texts(network, MACHINES[options.text[1]]):
            print(text)
        return 0
    changed = told = 0
    for network in (n for n in NETWORKS if options.only in n.name):
        known, made, chosen = read(), {}, []
        for row, choices in rows([network]):
            made[row.network, row.machine] = row
            chosen += choices
        names = dict.fromkeys(row.network for row in made.values())
        other_rows = [row for key, row in made.items() if known.get(key) != row]
        other_choices = differing([c for name in names for c in read_choices(name)], chosen)
        for line in (*(f"{row.network}, {row.machine}: other kernels" for row in other_rows), *other_choices):
            print(line, flush=True)
        changed += len(other_rows)
        told += len(other_choices)
        if options.write:
            # After each network, so that what was found is there if this is interrupted.
            write({**known, **made})
            for name in names:
                write_choices(name, [c for c in chosen if c.network == name])
    print(f"{changed} rows differ from {FILE.name}, {told} lines from {SCHEDULES.name}/", flush=True)
    return 0 if options.write or not (changed or told) else 1


if __name__ == "__main__":
    sys.exit(main())
