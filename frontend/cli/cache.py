"""`polyreme cache`: compiled code that is kept on disk."""

from __future__ import annotations

import json
import time
from collections import defaultdict
from typing import TYPE_CHECKING

import click

from polyreme.cli import Command
from polyreme.cli.reports import is_quiet

if TYPE_CHECKING:
    from polyreme.runtime.cache import Cache, Entry

EXAMPLES = (
    ("Where compiled code is kept, how much there is, and what was used last", "polyreme cache"),
    ("Every entry", "polyreme cache show --all"),
    ("Keep at most so much; what was not used for longest goes first", "polyreme cache limit 500MB"),
    ("Remove everything", "polyreme cache clear"),
)
# Entries that are listed unless all are asked for.
SHOWN = 10


@click.command("cache", cls=Command, examples=EXAMPLES)
@click.argument("action", type=click.Choice(["show", "limit", "clear"]), default="show")
@click.argument("size", required=False)
@click.option("--all", "every", is_flag=True, help="List every entry, not only those used last.")
@click.option("--json", "as_json", is_flag=True, help="Print what there is as JSON.")
def command(action: str, size: str | None, every: bool, as_json: bool) -> None:
    """Show what compiled code is kept on disk; with `limit SIZE` keep at most so much, with `clear` remove it.

    The folder is POLYREME_CACHE, which may be `off`, or else `polyreme` in the user's cache folder. POLYREME_CACHE_LIMIT goes before the
    limit that is set here. Entries are checked when they are used: a damaged one is made again.
    """
    from polyreme.ir import config
    from polyreme.ir.diagnostics import PolyremeError
    from polyreme.runtime.cache import Cache

    if (size is not None) != (action == "limit"):
        raise click.UsageError("expected a size, such as 500MB, after 'limit', and after nothing else")
    folder = config.cache_folder()
    if folder is None:
        raise PolyremeError("expected a folder of compiled code but POLYREME_CACHE says 'off'", code="E0004")
    cache = Cache(folder, config.cache_limit())
    if action == "clear":
        count, gone = cache.clear()
        if not is_quiet():
            click.echo(f"removed {count} entries of {config.bytes_text(gone)} from {folder}")
    elif action == "limit":
        cache = Cache(folder)
        try:
            cache.keep_limit(config.parse_bytes(str(size), "the limit"))
        except OSError as error:
            raise PolyremeError(f"cannot write to the cache folder '{folder}': {error.strerror or error}", code="E0009") from error
        if not is_quiet():
            click.echo(f"{folder} holds at most {config.bytes_text(cache.limit)}")
    else:
        show(cache, every, as_json)


def show(cache: Cache, every: bool, as_json: bool) -> None:
    """Print the entries of a cache."""
    from polyreme.ir.config import bytes_text

    entries = cache.entries()
    told = [(entry, *what(entry)) for entry in entries]
    if as_json:
        rows = [{"key": e.key, "bytes": e.size, "used": round(e.used, 3), "kind": kind, "name": name} for e, kind, name in told]
        click.echo(
            json.dumps(
                {"folder": str(cache.folder), "limit": cache.limit, "bytes": sum(e.size for e in entries), "entries": rows}, indent=1
            )
        )
        return
    kinds: dict[str, list[int]] = defaultdict(list)
    for entry, kind, _ in told:
        kinds[kind].append(entry.size)
    click.echo(f"{cache.folder}: {len(entries)} entries of {bytes_text(sum(e.size for e in entries))}, at most {bytes_text(cache.limit)}")
    for kind, sizes in sorted(kinds.items()):
        click.echo(f"  {kind:8} {len(sizes):5}  {bytes_text(sum(sizes)):>8}")
    listed = told if every else told[:SHOWN]
    if listed:
        click.echo("used              bytes  what")
    for entry, kind, name in listed:
        used = time.strftime("%Y-%m-%d %H:%M", time.localtime(entry.used))
        click.echo(f"{used}  {bytes_text(entry.size):>8}  {kind} {name or entry.key[:12]}")
    if len(listed) < len(told):
        click.echo(f"and {len(told) - len(listed)} used before (--all lists them)")


def what(entry: Entry) -> tuple[str, str]:
    """The kind of an entry, and its name if it has one: a whole model, its code linked for this machine, the object of one kernel, what is
    known of a saved program, the tables that texts are read with, or the digest of a file.
    """
    from polyreme.runtime.artifact import CONSTANTS_AT, HEADER, MAGIC
    from polyreme.runtime.cache import DIGEST_BYTES

    try:
        head = entry.part(0, HEADER.size)
        if head.startswith(b"\x7fELF"):
            return "linked" if head[16:18] == b"\3\0" else "kernel", ""
        if head.startswith(b"["):
            return "parser", ""
        if head.startswith(b"{"):
            return "program", str(json.loads(entry.part(0, entry.size))["name"])
        if len(head) == 2 * DIGEST_BYTES and head.isalnum():
            return "file", ""
        if head[: len(MAGIC)] == MAGIC and len(head) == HEADER.size:
            _, _, _, manifest_bytes, _, constant_bytes, _ = HEADER.unpack(head)
            return "model", str(json.loads(entry.part(CONSTANTS_AT + constant_bytes, manifest_bytes))["name"])
    except (OSError, ValueError, KeyError, TypeError):
        # Gone meanwhile, or damaged: whoever needs it finds out.
        return "unknown", ""
    return "unknown", ""
