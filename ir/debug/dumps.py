"""Looking at modules between passes: `POLYREME_DUMP` writes those that changed, `POLYREME_OVERRIDE` puts files in their place,
`POLYREME_DEBUG` prints.

Files are called by the number and the name of the pass, `07-fuse.tir`, so that a folder shows the pipeline in order, and what one run
dumped another one may take, with the changes of whoever edited it. A process that runs several pipelines, as training does, has the files
of the second in `run-2`, and so on.
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

from polyreme.ir import config, text
from polyreme.ir.builtin import Module
from polyreme.ir.core import Block
from polyreme.ir.diagnostics import PolyremeError
from polyreme.ir.verify import verify

__all__ = ["Watch", "replace_body"]

# How many pipelines of this process each folder has seen.
_runs: Counter[tuple[str, Path]] = Counter()


class Watch:
    """One run of a pipeline, as the settings want it looked at; nothing is printed or compared when they ask for nothing."""

    def __init__(self, module: Module):
        self.level = config.debug_level()
        self.dump = _folder_of_run("dump", config.dump_folder())
        self.override = _folder_of_run("override", config.override_folder())
        self.wanted = self.dump is not None or self.level >= 5
        self.last = text.print_module(module) if self.wanted else ""
        if self.dump is not None:
            self._write("00-input", self.last)

    def after_pass(self, module: Module, number: int, name: str) -> None:
        """`number` counts the passes from 1 on."""
        label = f"{number:02}-{name}"
        self.put_override(module, number, name)
        if not self.wanted:
            return
        now = text.print_module(module)
        changed, self.last = now != self.last, now
        if changed and self.dump is not None:
            self._write(label, now)
        if self.level >= 6:
            print(f"// after {label}{'' if changed else ' (unchanged)'}\n{now if changed else ''}", file=sys.stderr)

    def after_stage(self, module: Module, name: str) -> None:
        if self.level == 5:
            print(f"// after the stage {name}\n{self.last}", file=sys.stderr)

    def put_override(self, module: Module, number: int, name: str) -> None:
        """The file for this pass, verified, in the place of what it made; nothing happens when there is none."""
        path = None if self.override is None else self.override / f"{number:02}-{name}.tir"
        if path is None or not path.is_file():
            return
        source = path.read_text(encoding="utf-8")
        other = text.parse_module(source, str(path))
        verify(other, source)
        replace_body(module, other)
        if self.level >= 1:
            print(f"// {path} takes the place of what '{name}' made", file=sys.stderr)

    def _write(self, label: str, now: str) -> None:
        assert self.dump is not None
        path = self.dump / f"{label}.tir"
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(now, encoding="utf-8")
        except OSError as error:
            raise PolyremeError(f"cannot dump the module to {path}: {error}", code="E0009") from error


def _folder_of_run(purpose: str, folder: Path | None) -> Path | None:
    if folder is None:
        return None
    key = purpose, folder.resolve()
    _runs[key] += 1
    number = _runs[key]
    return folder if number == 1 else folder / f"run-{number}"


def replace_body(module: Module, other: Module) -> None:
    """Let `module` hold what `other` holds, which is left empty."""
    module.regions[0].blocks[:] = [Block()]
    module.block.parent = module.regions[0]
    module.attributes = dict(other.attributes)
    for op in other.block:
        op.detach()
        module.block.append(op)
