"""The command line. `COMMANDS` is the table of all commands; each has a file of its own, imported when it is asked for.

Exit codes: 0 done, 1 the model or the input is at fault, 2 wrong usage, 3 (`WRONG`) numbers are wrong, as `verify` and `bisect` find. An
error has a code, the user's own place and the way out; `--debug` shows the traceback.
"""

from __future__ import annotations

import importlib
import os
import sys
import traceback
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem, shell_complete

from polyreme import __version__
from polyreme.cli.reports import QUIET, report, warning_text
from polyreme.ir import config
from polyreme.ir.diagnostics import hide_frames_under
from polyreme.ir.python.garbage import leave_to_the_end

# The exit code of a command that compared numbers, and found wrong ones: no error kept it from doing so.
WRONG = 3

COMMANDS = {
    "demo": "train a LeNet on handwritten digits, compile it, and compare eager, compiled and library",
    "inspect": "print a model's IR at a level",
    "compile": "write a model as a native library with a C header",
    "quantize": "bring a model into eight bits, by calibration data, and say what that did",
    "run": "run a library or model on arrays",
    "verify": "compare a library with what its model should compute",
    "opt": "run passes over IR text",
    "bisect": "find the pass and the op at which a model's numbers go wrong",
    "reduce": "make IR text that fails as small as it can be",
    "bench": "measure a model's latency",
    "cache": "show what compiled code is kept, limit it, or clear it",
    "launch": "run a training script in several processes",
    "explain": "say what the code of an error means",
    "info": "say what is installed here, or what a model file or library is",
    "completion": "print the script with which a shell completes command lines",
}


class Command(click.Command):
    """A command that takes `--quiet` and `--debug` wherever they are written, and whose help ends with `examples`: what each is for, and
    the command line.
    """

    def __init__(self, *args: Any, examples: Sequence[tuple[str, str]] = (), **kwargs: Any):
        super().__init__(*args, **kwargs)
        self.params += _common_options()
        self.examples = examples

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        super().format_epilog(ctx, formatter)
        if self.examples:
            # As they are typed: a command line that is wrapped can no longer be copied.
            formatter.write("\nExamples:\n")
            for purpose, line in self.examples:
                formatter.write(f"  # {purpose}\n  {line}\n")


class Commands(click.Group):
    """The commands of the table, each imported from the file of its name when it runs."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        command = importlib.import_module(f"polyreme.cli.{name}").command
        assert isinstance(command, click.Command)
        return command

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        if args and args[0] not in COMMANDS and not ctx.resilient_parsing:
            from polyreme.ir.diagnostics import did_you_mean

            ctx.fail(f"expected a command ({', '.join(COMMANDS)}) but got '{args[0]}'{did_you_mean(args[0], COMMANDS)}")
        return super().resolve_command(ctx, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        # From the table, too.
        names = [CompletionItem(name, help=text) for name, text in COMMANDS.items() if name.startswith(incomplete)]
        return names + click.Command.shell_complete(self, ctx, incomplete)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        # From the table, so that help imports no command.
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


def _common_options() -> list[click.Parameter]:
    def silence(ctx: click.Context, _: click.Parameter, value: bool) -> None:
        root = ctx.find_root()
        if value and not root.meta.get(QUIET):
            root.meta[QUIET] = True
            root.with_resource(warnings.catch_warnings())
            warnings.simplefilter("ignore")

    quiet = "Print results and errors only: no notes, no progress, no warnings."
    return [
        click.Option(["-q", "--quiet"], is_flag=True, expose_value=False, callback=silence, help=quiet),
        click.Option(["--debug"], is_flag=True, expose_value=False, help="Show the traceback of an error."),
    ]


@click.group(cls=Commands, params=_common_options(), context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, "-V", "--version", prog_name="polyreme")
def group() -> None:
    """Row a Paddle-style model through several levels of IR and land it as machine code.

    MODEL is file.py:Name (a Layer class or instance, or a function), a model saved by jit.save or by Paddle (.json, .pdmodel), a compiled
    library, or IR text (.tir).

    `polyreme COMMAND --help` says what a command takes, and ends with commands to copy; `polyreme opt --list-passes` and `--list-ops` say
    what there is.
    """


def main(args: Sequence[str] | None = None) -> None:
    """Run the command line and leave the program with its exit code."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        # A stream that was closed (`>&-`): else the next file that is opened would be it.
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))
    warnings.formatwarning = warning_text
    code = run_command(args)
    leave_to_the_end()
    sys.exit(code)


def run_command(args: Sequence[str] | None = None) -> int:
    """Run the command line; the exit code."""
    # Frames of the command line's own machinery are never the user's place.
    hide_frames_under(os.path.dirname(click.__file__))
    hide_frames_under(str(Path(sys.argv[0]).absolute()))
    if instruction := config.completion_wanted():
        return shell_complete(group, {}, "polyreme", config.COMPLETION, instruction)
    given = list(sys.argv[1:] if args is None else args)
    if not given:
        with click.Context(group, info_name="polyreme") as ctx:
            print(group.get_help(ctx), file=sys.stderr)
        return 2
    debug = "--debug" in given
    try:
        # Not `group.main`, which ends the program itself when a reader has gone.
        with group.make_context("polyreme", given) as ctx:
            result = group.invoke(ctx)
    except click.ClickException as error:
        report(error)
        return 2 if isinstance(error, click.UsageError) else 1
    except click.exceptions.Exit as stop:
        return stop.exit_code
    except (click.Abort, KeyboardInterrupt):
        print("interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        # Whoever read the output has gone (`polyreme inspect … | head`); say nothing more.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (Exception, SystemExit) as error:
        if debug:
            traceback.print_exception(error)
        else:
            report(error)
        return 1
    # What a command gives to `ctx.exit`.
    return result if isinstance(result, int) else 0
