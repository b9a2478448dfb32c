"""What docs/text_format.md shows is what is printed."""

import re
from pathlib import Path

import polyreme.dialects  # noqa: F401  (registers the dialects)
from polyreme.ir.structure import first_difference
from polyreme.ir.text import parse_module, print_module
from polyreme.ir.verify import verify

PAGE = (Path(__file__).parents[2] / "docs" / "text_format.md").read_text(encoding="utf-8")
READABLE, GENERIC, RESOURCE = re.findall(r"```mlir\n(.*?)```", PAGE, re.DOTALL)


def test_the_page_shows_one_module_in_both_forms_as_it_is_printed() -> None:
    module = parse_module(READABLE)
    verify(module)
    assert print_module(module) == READABLE
    assert print_module(module, generic=True) == GENERIC
    assert first_difference(module, parse_module(GENERIC)) == ""


def test_the_resource_on_the_page_is_read() -> None:
    (constant, _) = parse_module(RESOURCE).function().block
    assert constant.attributes["value"].array.tolist() == [1.0, 2.0]
