"""What the command line says of an error, on standard error: its diagnostics, and which page explains them."""

from __future__ import annotations

import re
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import polyreme
from polyreme.ir.diagnostics import Diagnostic, Location, PolyremeError, did_you_mean, raised_location
from polyreme.runtime.errors import RuntimeFault

if TYPE_CHECKING:
    from rich.text import Text

USAGE = "E0001"
ARGUMENT = "E0311"

_PACKAGE = Path(polyreme.__file__).parent
_with_place = warnings.formatwarning

_CODE = re.compile(r"\berror\[(E\d{4})\]: ")
_HEAD = re.compile(r"^(?P<place>\S.*?: )?(?P<severity>error|note)(?P<code>\[E\d{4}\])?: ")
_CARETS = re.compile(r"^\s*\^+$")
_SEE = re.compile(r"^see: ")


QUIET = "polyreme.quiet"
"""Where the context of a command line keeps that `--quiet` was given."""


def is_quiet() -> bool:
    """Whether `--quiet` was given: only results and errors are printed."""
    ctx = click.get_current_context(silent=True)
    return ctx is not None and bool(ctx.find_root().meta.get(QUIET))


def note(text: str) -> None:
    """Say on standard error what is no result: nothing with `--quiet`."""
    if not is_quiet():
        click.echo(text, err=True)


def report(error: BaseException) -> None:
    """Print what the user is to read of an error, in colours if a terminal reads along."""
    text = with_hint(error_text(error))
    if not sys.stderr.isatty():
        print(text, file=sys.stderr)
        return
    from rich.console import Console

    # rich knows about NO_COLOR and terminals without colours.
    Console(stderr=True, soft_wrap=True).print(coloured(text))


def error_text(error: BaseException) -> str:
    """The diagnostics of our own errors, else one line with the user's place."""
    if isinstance(error, PolyremeError):
        first, *others = error.diagnostics
        if not first.location:
            first = replace(first, location=raised_location(error))
        return "\n".join(d.render() if d.code or d.location else f"error: {d.render()}" for d in (first, *others))
    if isinstance(error, click.UsageError):
        usage = f"{error.ctx.get_usage()}\n" if error.ctx is not None else ""
        return f"{usage}error[{USAGE}]: {error.format_message().rstrip('.')}{_nearest_choice(error)}"
    if isinstance(error, click.ClickException):
        return f"error: {error.format_message()}"
    if isinstance(error, SyntaxError) and error.filename and error.lineno:
        name = type(error).__name__
        return Diagnostic(f"{name}: {error.msg}", Location(error.filename, error.lineno, error.offset or 0)).render()
    place = raised_location(error)
    if isinstance(error, RuntimeFault):
        return Diagnostic(error.message, place, code=error.code).render()
    if isinstance(error, OSError) and error.strerror and not place:
        return f"error: {error.strerror}" + (f": '{error.filename}'" if error.filename is not None else "")
    if isinstance(error, (OSError, ValueError, TypeError)) and not place:
        return f"error: {error}"
    if isinstance(error, (ValueError, TypeError)) and _is_of_the_api(error):
        return Diagnostic(str(error), place, code=ARGUMENT).render()
    message = f"{type(error).__name__}: {error} (--debug shows where it comes from)"
    return Diagnostic(message, place).render() if place else f"error: {message}"


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Where a file or folder that the user named is written: what the system says against it becomes an error that names it."""
    try:
        yield
    except OSError as error:
        raise PolyremeError(f"cannot write '{path}': {error.strerror or error}", code="E0009") from error


def _is_of_the_api(error: BaseException) -> bool:
    """Whether a function of ours raised the error, not one of the user's."""
    step = error.__traceback__
    while step is not None and step.tb_next is not None:
        step = step.tb_next
    module = step.tb_frame.f_globals.get("__name__", "") if step is not None else ""
    return bool(module == "polyreme" or module.startswith("polyreme."))


def _nearest_choice(error: click.UsageError) -> str:
    """For a value that is not among an option's choices, the nearest of them."""
    kind = getattr(getattr(error, "param", None), "type", None)
    given = re.match(r"'(.*?)'", error.message)
    return did_you_mean(given[1], [str(c) for c in kind.choices]) if isinstance(kind, click.Choice) and given else ""


def warning_text(message: Warning | str, category: type[Warning], filename: str, lineno: int, line: str | None = None) -> str:
    """One line for a warning of ours, whose place tells a user nothing; others as Python has them."""
    return f"warning: {message}\n" if Path(filename).is_relative_to(_PACKAGE) else _with_place(message, category, filename, lineno, line)


def with_hint(text: str) -> str:
    """The text, and how to read more about the codes in it."""
    codes = list(dict.fromkeys(_CODE.findall(text)))
    return f"{text}\nsee: polyreme explain {' '.join(codes)}" if codes else text


def coloured(text: str) -> Text:
    """The same text with its severities, codes and carets coloured."""
    from rich.text import Text

    result = Text()
    for i, line in enumerate(text.split("\n")):
        result.append("\n" if i else "")
        for part, style in _styled(line):
            result.append(part, style)
    return result


def _styled(line: str) -> Iterator[tuple[str, Any]]:
    head = _HEAD.match(line)
    if head is not None:
        strong = "bold red" if head["severity"] == "error" else "bold cyan"
        yield head["place"] or "", "bold"
        yield f"{head['severity']}{head['code'] or ''}: ", strong
        yield line[head.end() :], "bold" if head["severity"] == "error" else None
    else:
        yield line, "bold green" if _CARETS.match(line) else "dim" if _SEE.match(line) else None
