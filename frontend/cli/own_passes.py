"""Passes of the user's own: `--load` runs what registers them, `--add-pass` puts them into the pipeline."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from polyreme.cli.completion import complete_files, completed_by
from polyreme.ir.diagnostics import PolyremeError
from polyreme.ir.python.records import dataclass

if TYPE_CHECKING:
    from polyreme.ir.debug.additions import Addition


@dataclass(frozen=True)
class OwnPasses:
    """What `--load`, `--add-pass` and `--schedules-from` of a command said; nothing is run before `load`."""

    files: tuple[str, ...]
    texts: tuple[str, ...]
    schedules: Path | None = None

    def load(self) -> list[Addition]:
        """Run the files, which register passes, and give the additions to the pipeline."""
        if not self.files and not self.texts and self.schedules is None:
            return []
        from polyreme.ir.debug.additions import Addition, parse_addition

        load_passes()
        for file in self.files:
            _load(file)
        made = [parse_addition(text) for text in self.texts]
        if self.schedules is not None:
            from polyreme.lowering.schedule.choose_schedules import OverrideSchedules

            made.append(Addition(OverrideSchedules(str(self.schedules)), anchor="tensor"))
        return made

    @contextmanager
    def in_the_pipeline(self) -> Iterator[None]:
        """Run the files; while this is open the pipeline has the passes of `--add-pass`, and at the end each of them has to have run."""
        from polyreme.ir.debug.additions import added

        with added(self.load()):
            yield

    def words(self) -> list[str]:
        """The options as they are typed, for a command that repeats something."""
        return [word for file in self.files for word in ("--load", file)]


def own_passes_options(pipeline: bool = True) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Adds `--load` to a command, and with `pipeline`, for one that runs the compiler's own passes, `--add-pass`; the command gets `own`.
    """

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(command)
        def run(
            *args: Any, load: tuple[str, ...], add_pass: tuple[str, ...] = (), schedules_from: Path | None = None, **others: Any
        ) -> Any:
            return command(*args, own=OwnPasses(load, add_pass, schedules_from), **others)

        add = click.option(
            "--add-pass", multiple=True, metavar="NAME[@PLACE]", shell_complete=completed_by(pass_names),
            help="Run this pass too; PLACE is after: or before: a stage or a pass, such as after:tensor or before:fuse.",
        )  # fmt: skip
        files = click.option(
            "--load", multiple=True, metavar="FILE.py", shell_complete=complete_files,
            help="Run a Python file (or a module, by its name) first, which registers passes.",
        )  # fmt: skip
        override = click.option(
            "--schedules-from", metavar="FILE", type=click.Path(exists=True, dir_okay=False, path_type=Path),
            help="Compute roots by the schedules of a file, each line of which is OPS -> TYPES: SCHEDULE.",
        )  # fmt: skip
        return files(override(add(run)) if pipeline else run)

    return decorate


def pass_names() -> list[str]:
    """The passes of the compiler."""
    from polyreme.ir.passes import PASSES

    load_passes()
    return sorted(PASSES)


def load_passes() -> None:
    """Import what registers the compiler's passes: importing is what does it."""
    import polyreme.lowering.pipeline  # noqa: F401
    import polyreme.lowering.schedule.arena
    import polyreme.lowering.transforms.bucket  # noqa: F401


def _load(text: str) -> None:
    """Run a Python file, or import a module by its name; `PolyremeError` if it adds nothing to the compiler."""
    from polyreme.cli.models import load_file

    before = _registered()
    if text.endswith(".py") or "/" in text or Path(text).exists():
        if Path(text).is_dir():
            raise PolyremeError(f"expected a Python file that registers passes but '{text}' is a folder; name the file in it", code="E0002")
        module = load_file(Path(text))
    else:
        module = _import(text)
    if _registered() == before and not _has_passes(module):
        raise PolyremeError(
            f"expected '{text}' to register passes, ops, patterns or rules but it registers none; write @register_pass above the class of "
            f"a pass",
            code="E0401",
        )


def _import(name: str) -> Any:
    if "" not in sys.path and str(Path.cwd()) not in sys.path:
        # As `python -m` has it.
        sys.path.insert(0, str(Path.cwd()))
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not (name == error.name or name.startswith(f"{error.name}.")):
            raise
        raise PolyremeError(
            f"expected a Python file (FILE.py) or the name of a module but there is no module '{name}'", code="E0002"
        ) from None
    except (ValueError, TypeError) as error:
        raise PolyremeError(f"expected a Python file (FILE.py) or the name of a module but got '{name}': {error}", code="E0002") from None


def _registered() -> Any:
    """What the compiler knows of: passes, ops, patterns, rules and gradients."""
    from polyreme.ir.context import all_ops
    from polyreme.ir.convert import Conversion
    from polyreme.ir.passes import PASSES
    from polyreme.lowering.transforms.cleanup import CANONICAL

    conversions = [made for factory in PASSES.values() if not isinstance(factory, type) and isinstance(made := factory(), Conversion)]
    rules = sum(len(rules) for made in conversions for rules in made.rules.values())
    return list(PASSES.items()), list(all_ops().items()), len(CANONICAL), rules


def _has_passes(module: Any) -> bool:
    """Whether a pass is registered that was made in this module, which may have been imported before."""
    from polyreme.ir.passes import PASSES

    return any(getattr(made, "__module__", "") == module.__name__ for made in PASSES.values())
