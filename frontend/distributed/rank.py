"""What a process started by `spawn` runs: the function in the folder that its parent made, which keeps the folder to itself."""

from __future__ import annotations

import pickle
import sys
import traceback
from pathlib import Path

from polyreme.ir import config


def main(folder: Path) -> int:
    """Run the function; a failure is written down for the parent. The exit code."""
    with open(folder / "function", "rb") as file:
        function, args, path = pickle.load(file)
    sys.path[:] = [*path, *(p for p in sys.path if p not in path)]
    try:
        function(*args)
    except SystemExit as error:
        return error.code if isinstance(error.code, int) else int(error.code is not None)
    except BaseException as error:  # noqa: BLE001 - whatever it is, the parent raises it
        (folder / f"error-{config.launched().rank}.txt").write_text(traceback.format_exc())
        # As the interpreter does for errors that nobody catches: the communicator tells the other ranks.
        sys.last_type, sys.last_value, sys.last_traceback = type(error), error, error.__traceback__
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
