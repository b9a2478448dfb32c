"""Tables of results in the pages: none is written by hand."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from benchmarks.tables import MARKED, PAGES, RESULTS, Query, read, rewritten
from benchmarks.whole_steps import HEAD, append_row, rows_in

FILE = "machine,model,threads,ratio\nA,one,1,1.5\nA,one,2,1.4\nB,one,1,2.0\nA,two,1,0.9\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "speed.csv").write_text(FILE)
    return tmp_path


def test_the_tables_of_the_pages_are_what_the_results_say() -> None:
    stale = [path.name for path in sorted(PAGES.rglob("*.md")) if rewritten(text := path.read_text(encoding="utf-8")) != text]
    assert stale == [], "run `python -m benchmarks.tables`"


def test_every_file_of_results_is_read_by_a_page() -> None:
    pages = "\n".join(path.read_text(encoding="utf-8") for path in PAGES.rglob("*.md"))
    asked = {Query.parse(mark).name for mark in MARKED.findall(pages)}
    assert asked == {path.stem for path in RESULTS.glob("*.csv")}


def test_marks_come_in_pairs() -> None:
    for path in PAGES.rglob("*.md"):
        text = path.read_text(encoding="utf-8")
        assert len(re.findall(r"<!-- table ", text)) == text.count("<!-- end of table -->") == len(MARKED.findall(text)), path.name


def test_a_table_has_the_rows_that_are_asked_for_and_what_differs_among_them(folder: Path) -> None:
    assert Query.parse("speed machine=A; threads=1").make(read("speed", folder)) == (
        "| model | ratio |\n| --- | --- |\n| one | 1.5 |\n| two | 0.9 |"
    )
    assert Query.parse("speed machine=B|A; show=machine,ratio").make(read("speed", folder)).count("\n") == 5


def test_one_column_may_become_many(folder: Path) -> None:
    assert Query.parse("speed machine=B|A; across=machine; of=ratio; show=model,threads").make(read("speed", folder)) == (
        "| model | threads | B | A |\n| --- | --- | --- | --- |\n| one | 1 | 2.0 | 1.5 |\n| one | 2 |  | 1.4 |\n| two | 1 |  | 0.9 |"
    )


def test_what_stood_between_the_marks_is_replaced_and_nothing_else(folder: Path) -> None:
    page = "# Speed\n\n<!-- table speed machine=B -->\nold\n<!-- end of table -->\n\nbehind\n"
    made = rewritten(page, folder)
    assert "old" not in made and made.startswith("# Speed\n") and made.endswith("\n\nbehind\n") and "| one | 1 | 2.0 |" in made
    assert rewritten(made, folder) == made


@pytest.mark.parametrize(
    ("mark", "why"),
    [
        ("speed machine=C", "no row"),
        ("speed speed=A", "expected a column"),
        ("speed show=model,speed", "expected a column"),
        ("speed machine", "expected key=value"),
        ("speed across=machine", "both of 'across' and 'of'"),
    ],
)
def test_what_cannot_be_made_is_refused(mark: str, why: str, folder: Path) -> None:
    with pytest.raises(ValueError, match=why):
        Query.parse(mark).make(read("speed", folder))


def test_a_row_with_too_few_cells_is_refused(folder: Path) -> None:
    (folder / "speed.csv").write_text(FILE + "A,one\n")
    with pytest.raises(ValueError, match=r"speed.csv:6"):
        read("speed", folder)


def test_rows_of_a_table_that_was_stopped_are_found_again(tmp_path: Path) -> None:
    file = tmp_path / "rows.csv"
    assert rows_in(file) == rows_in(None) == {}
    lines = [[net, *(str(i) for i in range(1, len(HEAD)))] for net in ("MLP", "ResNet-18, 64")]
    for threads, line in enumerate(lines, start=1):
        append_row(file, threads, line)
    assert rows_in(file) == {("1", "MLP"): lines[0], ("2", "ResNet-18, 64"): lines[1]}
    assert file.read_text(encoding="utf-8").splitlines()[0].startswith("threads,net,polyreme ms")
