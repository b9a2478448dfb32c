"""Writes the hostile files, each in a folder of its own with what must become of it: `python -m tests.hostile FOLDER`."""

import sys
from pathlib import Path

from tests.hostile.every import every

for number, case in enumerate(every()):
    folder = Path(sys.argv[1]) / f"{number:03}"
    folder.mkdir(parents=True)
    case.files.write(folder)
    expected = "it is read" if case.expected is None else f"it is refused: {case.expected}"
    (folder / "what.txt").write_text(f"{case.name}\n{expected}\n", encoding="utf-8", errors="backslashreplace")
