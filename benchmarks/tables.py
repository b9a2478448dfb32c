"""Tables in Markdown: of what a benchmark measured, and in the pages of `docs`, of the files in `benchmarks/results`.

    python -m benchmarks.tables            # write every table of the pages anew
    python -m benchmarks.tables --check    # say which pages would change, with exit status 1

A page says between two marks which table it wants, and the script writes what stands between them:

    <!-- table models machine=Zen 5|Zen 4; threads=1; show=model,ratio -->
    <!-- end of table -->

The first word is a file of results. `column=value` keeps the rows that have one of these values, and leaves out a column of which all rows
then have the same one. `show` chooses columns. `across=machine; of=ratio` makes a column of each machine, of the rows that are alike in
what is shown; where there are several of them, the last one counts.
"""

from __future__ import annotations

import argparse
import csv
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

__all__ = ["PAGES", "RESULTS", "Query", "read", "rewritten", "table"]

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"
PAGES = ROOT / "docs"
MARKED = re.compile(r"^<!-- table (.+?) -->\n.*?^<!-- end of table -->$", re.MULTILINE | re.DOTALL)

Row = dict[str, str]


def table(head: Sequence[Any], rows: Sequence[Sequence[Any]]) -> str:
    """A table with these rows."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines)


def read(name: str, folder: Path = RESULTS) -> list[Row]:
    """The rows of a file of results; ValueError where a row has more or fewer cells than there are columns."""
    with (folder / f"{name}.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    for number, row in enumerate(rows, 2):
        if None in row or None in row.values():
            raise ValueError(f"{name}.csv:{number}: expected a cell for each of the columns {', '.join(key for key in row if key)}")
    return rows


@dataclass(frozen=True)
class Query:
    """A table that a page wants, of the rows of file `name`."""

    name: str
    where: dict[str, tuple[str, ...]] = field(default_factory=dict)
    show: tuple[str, ...] = ()
    across: str = ""
    of: str = ""

    @staticmethod
    def parse(text: str) -> Query:
        """What stands in a mark; ValueError where it is no list of `key=value`."""
        name, _, rest = text.strip().partition(" ")
        pairs = [part.strip().partition("=") for part in rest.split(";") if part.strip()]
        if wrong := [key for key, equals, _ in pairs if not equals]:
            raise ValueError(f"expected key=value but got '{wrong[0]}' in the table '{text}'")
        said = {key: value for key, _, value in pairs}
        show = tuple(column.strip() for column in said.pop("show", "").split(",") if column.strip())
        across, of = said.pop("across", ""), said.pop("of", "")
        if bool(across) != bool(of):
            raise ValueError(f"expected both of 'across' and 'of', or none, in the table '{text}'")
        return Query(name, {key: tuple(value.split("|")) for key, value in said.items()}, show, across, of)

    def make(self, rows: Sequence[Row]) -> str:
        """The table; ValueError where no row fits, or a column does not exist."""
        columns = list(rows[0]) if rows else []
        for column in (*self.where, *self.show, *filter(None, (self.across, self.of))):
            if column not in columns:
                raise ValueError(f"expected a column of {self.name}.csv ({', '.join(columns)}) but got '{column}'")
        kept = [row for row in rows if all(row[key] in values for key, values in self.where.items())]
        if not kept:
            raise ValueError(f"no row of {self.name}.csv has {self.where}")
        if self.across:
            return self._across(kept)
        single = {key for key in self.where if len({row[key] for row in kept}) == 1}
        shown = self.show or [column for column in columns if column not in single and any(row[column] for row in kept)]
        return table([_heading(column) for column in shown], [[row[column] for column in shown] for row in kept])

    def _across(self, rows: Sequence[Row]) -> str:
        places = list(dict.fromkeys(row[self.across] for row in rows))
        if chosen := self.where.get(self.across):
            places.sort(key=chosen.index)
        found: dict[tuple[str, ...], Row] = {}
        for row in rows:
            found.setdefault(tuple(row[column] for column in self.show), {})[row[self.across]] = row[self.of]
        body = [[*key, *(cells.get(place, "") for place in places)] for key, cells in found.items()]
        return table([*map(_heading, self.show), *places], body)


def _heading(column: str) -> str:
    return column.replace("_", " ")


def rewritten(page: str, folder: Path = RESULTS) -> str:
    """The text of a page with its tables as the results have them now."""

    def made(mark: re.Match[str]) -> str:
        query = Query.parse(mark[1])
        return f"<!-- table {mark[1]} -->\n\n{query.make(read(query.name, folder))}\n\n<!-- end of table -->"

    return MARKED.sub(made, page)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Write the tables of the pages from the files of results.")
    parser.add_argument("--check", action="store_true", help="write nothing, and fail if a page would change")
    check = parser.parse_args(arguments).check
    changed = []
    for path in sorted(PAGES.rglob("*.md")):
        before = path.read_text(encoding="utf-8")
        after = rewritten(before)
        if after != before:
            changed.append(path)
            if not check:
                path.write_text(after, encoding="utf-8")
    for path in changed:
        print(f"{path.relative_to(ROOT)}: {'would change' if check else 'written'}")
    return int(check and bool(changed))


if __name__ == "__main__":
    sys.exit(main())
