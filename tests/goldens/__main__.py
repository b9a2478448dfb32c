"""The command: see the package."""

from __future__ import annotations

import argparse
import sys

from tests.goldens.compare import FILE, MACHINES, found_for, read, rows, write
from tests.goldens.networks import NETWORKS


def main() -> int:
    """0 where nothing differs."""
    parser = argparse.ArgumentParser(prog="python -m tests.goldens")
    parser.add_argument("--write", action="store_true", help="write the file anew")
    parser.add_argument("--text", nargs=2, metavar=("NETWORK", "MACHINE"), help="print the kernels of one network for one machine")
    parser.add_argument("--only", default="", help="networks with this in their name")
    options = parser.parse_args()
    if options.text:
        network = next(n for n in NETWORKS if n.name == options.text[0])
        for text, _ in found_for(network, MACHINES[options.text[1]]):
            print(text)
        return 0
    known, made, changed = read(), {}, 0
    for row in rows(n for n in NETWORKS if options.only in n.name):
        made[row.network, row.machine] = row
        before = known.get((row.network, row.machine))
        if before != row:
            changed += 1
            what = (
                "new"
                if before is None
                else "other kernels"
                if before.builders == row.builders
                else f"other builders: {before.builders} are {row.builders}"
            )
            print(f"{row.network}, {row.machine}: {what}", flush=True)
    print(f"{len(made)} compared, {changed} differ from {FILE.name}", flush=True)
    if options.write:
        write({**known, **made} if options.only else made)
    return 0 if options.write or not changed else 1


if __name__ == "__main__":
    sys.exit(main())
