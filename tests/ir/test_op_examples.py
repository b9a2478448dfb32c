"""Every op's docstring has an example that parses, verifies, mentions the op, and prints back to itself.

How examples are written is said in `ir/define.py`; `tests/cli/test_op_pages.py` runs them.
"""

import re

import pytest

import polyreme.dialects  # noqa: F401  (registers the dialects)
from polyreme.ir.context import all_ops
from polyreme.ir.debug.examples import documentation, example_module
from polyreme.ir.diagnostics import PolyremeError
from polyreme.ir.text import parse_module, print_module
from polyreme.ir.verify import verify


@pytest.mark.parametrize("name", all_ops())
def test_the_example_of_an_op_parses_and_verifies(name):
    module = example_module(all_ops()[name])
    verify(module)
    assert name in {op.name for op in module.walk()}


@pytest.mark.parametrize("generic", [False, True], ids=["readable", "generic"])
@pytest.mark.parametrize("name", all_ops())
def test_the_example_of_an_op_reads_back_as_it_was_printed(name, generic):
    module = example_module(all_ops()[name])
    text = print_module(module, generic)
    again = parse_module(text)
    verify(again)
    assert print_module(again, generic) == text
    assert print_module(again) == print_module(module)


def test_an_op_without_an_example_or_with_a_value_of_unknown_type_is_an_error():
    class Bare(all_ops()["nn.exp"]):
        """No example here."""

        name = "nn.bare"

    class Unclear(Bare):
        """Writes.

            kernel.store %v, %y, %i
        """

    with pytest.raises(PolyremeError, match=r"expected an example in the docstring of 'nn\.bare'"):
        example_module(Bare)
    with pytest.raises(PolyremeError, match="comment with the type of %v"):
        example_module(Unclear)


@pytest.mark.parametrize("name", all_ops())
def test_the_docstring_of_an_op_says_what_it_is_in_one_line(name):
    summary = documentation(all_ops()[name]).summary
    assert 10 <= len(summary) <= 160 and summary[0].isascii() and not summary.startswith("//"), summary


@pytest.mark.parametrize("name", all_ops())
def test_the_docstring_of_an_op_says_more_than_what_it_is(name):
    """Shapes, special cases, what is refused: after the example."""
    assert len(documentation(all_ops()[name]).prose) > 1


@pytest.mark.parametrize("name", all_ops())
def test_the_docstring_of_an_op_names_every_attribute(name):
    prose = " ".join(documentation(all_ops()[name]).prose)
    assert [a for a in all_ops()[name].definition.attributes if not re.search(rf"`{a}\b", prose)] == []
