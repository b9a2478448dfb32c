"""The table of operators against Paddle's own declarations of them (`fixtures/paddle_operators.json`)."""

from __future__ import annotations

import inspect
import json
import math
from pathlib import Path
from typing import Any

import pytest

from polyreme.dtypes import DTYPES, PROTOBUF_DTYPES
from polyreme.ir.types import ScalarType
from polyreme.operators.definition import LEGACY, PIR, REQUIRED, is_meaningless
from polyreme.operators.table import find_legacy, find_operator
from tests.operator_cases import OF_FLUID

DECLARED = json.loads((Path(__file__).parents[1] / "fixtures/paddle_operators.json").read_text(encoding="utf-8"))
# Slots that Paddle has come to read since, which are errors here.
REFUSED = {
    ("assign_value", "ValuesTensor"), ("lp_pool2d", "KernelSizeTensor"), ("lp_pool2d", "KernelSizeTensorList"), ("scale", "BiasTensor"),
}  # fmt: skip
# Defaults that are others here, by attribute: where Paddle's is none that an operator can run with, or where it is the same in effect.
OTHER_DEFAULTS = {
    "affine_channel data_layout": "NCHW",
    "assign_value values": [],  # older programs have numbers in an attribute per type
    "cast in_dtype": None,  # the operand's
    "conv3d_transpose data_format": "NCDHW",  # what Paddle's functions write
    "flatten_contiguous_range start_axis": 1,  # those of Paddle 2
    "flatten_contiguous_range stop_axis": 1,
    "group_norm groups": REQUIRED,
    "linspace dtype": 5,
    "one_hot_v2 depth": REQUIRED,
    "pad3d paddings": [],  # a tensor may have them
    "pool2d pooling_type": REQUIRED,
    "pool3d pooling_type": REQUIRED,
    "repeat_interleave Repeats": REQUIRED,
    "repeat_interleave dim": REQUIRED,
    "set_value dtype": None,  # the operand's
    "set_value values": [],
    "shuffle_channel group": REQUIRED,
    **{f"{name}_interp{v} interp_method": name for name in ("nearest", "linear", "trilinear", "bicubic") for v in ("", "_v2")},
}
OTHER_DEFAULTS_IN_PIR = {
    "affine_channel data_layout": "NCHW",
    "conv3d_transpose data_format": "NCDHW",
    "arange dtype": "int64",  # files always have these two
    "full_int_array dtype": "int64",
    "group_norm groups": REQUIRED,
    "shuffle_channel group": REQUIRED,
    "view_shape dims": REQUIRED,
    **{f"{name}_interp interp_method": name for name in ("nearest", "linear", "trilinear", "bicubic")},
}
CODES = {DTYPES[name].scalar: code for code, name in PROTOBUF_DTYPES.items()}


def plain(value: Any, dtype: bool) -> Any:
    """A default as a ProgramDesc has it."""
    if isinstance(value, ScalarType) or value is None and dtype:
        return CODES.get(value, -1)
    return list(value) if isinstance(value, tuple) else value


def plain_in_pir(value: Any) -> Any:
    return PROTOBUF_DTYPES[CODES[value]] if isinstance(value, ScalarType) else plain(value, False)


def equal(a: Any, b: Any) -> bool:
    return math.isclose(a, b, rel_tol=1e-6) if isinstance(a, float) and isinstance(b, (int, float)) else a == b


@pytest.mark.parametrize("name", DECLARED["legacy"])
def test_an_older_operator_has_paddles_slots_and_attributes(name: str) -> None:
    entry, spelling = find_legacy(name)
    declared, own = DECLARED["legacy"][name], entry.legacy_attributes(spelling)
    assert {slot for slot in declared["inputs"] if (name, slot) not in REFUSED} <= set(spelling.inputs)
    assert set(declared["outputs"]) <= set(spelling.outputs)
    for attribute, (kind, *default) in declared["attributes"].items():
        if attribute in spelling.ignored:
            continue
        if attribute not in own:
            value = default[0] if default else "something"
            assert is_meaningless(attribute, value) or equal(spelling.off.get(attribute), value), attribute
            continue
        made = own[attribute]
        assert made.type == kind, attribute
        if (key := f"{name} {attribute}") in OTHER_DEFAULTS:
            expected = OTHER_DEFAULTS[key]
            assert made.default is expected or equal(plain(made.default, expected == 5), expected), attribute
        elif default:
            assert equal(plain(made.default, "ScalarType" in made.parameter.kind), default[0]), attribute
        else:
            assert made.default is REQUIRED, attribute


@pytest.mark.parametrize("name", DECLARED["pir"])
def test_an_operator_of_pir_has_paddles_operands_and_attributes(name: str) -> None:
    entry, declared = find_operator(name), DECLARED["pir"][name]
    assert [p.name for p in entry.operands][: len(declared["operands"])] == declared["operands"]
    for attribute, default in declared["attributes"].items():
        made = entry.parameters.get(entry.renamed.get(attribute, attribute))
        if made is None:
            assert is_meaningless(attribute, default[0] if default else "something"), attribute
        elif default:
            assert equal(plain_in_pir(made.default), OTHER_DEFAULTS_IN_PIR.get(f"{name} {attribute}", default[0])), attribute


def test_what_is_not_declared_is_of_older_versions() -> None:
    # Paddle 3.3.1 has these under other names, with other slots, or not at all.
    assert {name for name in LEGACY if name not in DECLARED["legacy"]} == {
        "bicubic_interp", "fill_zeros_like", "flatten", "linear_interp", "pad2d", "squeeze", "sync_batch_norm", "trilinear_interp",
        "strided_slice_before_3", "unsqueeze", *(OF_FLUID - {"gather_tree", "sequence_mask", "tensor_array_to_tensor"}),
    }  # fmt: skip
    # Arrays of tensors, and what only clipping by norms appends, are in no file of declarations.
    assert {name for name in PIR if name not in DECLARED["pir"]} == {
        "array_length", "array_read", "array_write_", "clip_by_norm", "sync_batch_norm",
    }  # fmt: skip


def test_parameters_are_those_of_the_signature() -> None:
    for operator in {id(found): found for found in PIR.values()}.values():
        kinds: dict[Any, list[tuple[str, str, Any]]] = {inspect.Parameter.POSITIONAL_OR_KEYWORD: [], inspect.Parameter.KEYWORD_ONLY: []}
        for name, parameter in inspect.signature(operator.function).parameters.items():
            kinds.get(parameter.kind, []).append((name, str(parameter.annotation), parameter.default))
        told = [[(p.name, p.kind, p.default) for p in found] for found in (operator.operands, operator.attributes)]
        assert told == list(kinds.values()), operator.name
