"""The table of what Paddle's operators mean, and how arguments reach a row of it.

A row is a plain function of our own API, `@meaning`-decorated and written once for all doors: PIR files, legacy files and static programs.
Its parameters before the `*` are the operator's operands in PIR's order, those after it the attributes, by PIR's names. Annotations
say what a parameter wants:

    Tensor, Tensor | None, list[Tensor]     values of the running program
    Sizes, Numbers, Number                  whole numbers or sizes, numbers, one number: attributes, or tensors with known contents
    Scalar                                  a number where it is known, else the tensor
    ScalarType | None                       from a dtype in either file format; None where the file leaves it open
    int, float, bool, str, Any              attributes as they are
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from polyreme.contents import known_contents
from polyreme.dtypes import DTYPES
from polyreme.ir.diagnostics import did_you_mean
from polyreme.ir.dims import Dim, Expr
from polyreme.ir.types import ScalarType
from polyreme.loaders.errors import OperatorError
from polyreme.tensor import Tensor

__all__ = ["MEANINGS", "Meaning", "Number", "Numbers", "Scalar", "Sizes", "find_meaning", "meaning"]

Sizes = Sequence[Dim]
Numbers = Sequence[Any]
Number = Any  # an int, float or symbolic size
Scalar = Any  # as Number, or a Tensor


@dataclass
class Meaning:
    """One operator: its function, and its parameters by name with the kinds that they want."""

    name: str
    function: Callable[..., Any]
    operands: tuple[str, ...]
    kinds: dict[str, str]
    required: frozenset[str] = field(default_factory=frozenset)

    def apply(self, arguments: Mapping[str, Any]) -> tuple[Any, ...]:
        """The results, a tensor, a list of tensors or None each. An argument that is None is left out; unknown names are an
        `OperatorError`.
        """
        bound: dict[str, Any] = {}
        for name, value in arguments.items():
            if name not in self.kinds:
                if is_meaningless(name, value):
                    continue
                raise OperatorError(f"expected no attribute '{name}' of '{self.name}' but got {value!r}{did_you_mean(name, self.kinds)}")
            if value is not None:
                bound[name] = _converted(value, self.kinds[name], name)
        missing = self.required - set(bound)
        if missing:
            raise OperatorError(f"expected '{min(missing)}' for '{self.name}' but the program leaves it out")
        made = self.function(**bound)
        return made if isinstance(made, tuple) else (made,)


MEANINGS: dict[str, Meaning] = {}


def meaning(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Declare a function as what the operators called `names` mean (the function's own name when none is given)."""

    def declare(function: Callable[..., Any]) -> Callable[..., Any]:
        parameters = inspect.signature(function).parameters
        operands = tuple(n for n, p in parameters.items() if p.kind is p.POSITIONAL_OR_KEYWORD)
        kinds = {n: str(p.annotation) for n, p in parameters.items()}
        required = frozenset(n for n, p in parameters.items() if p.default is p.empty)
        for name in names or (function.__name__.rstrip("_"),):
            if name in MEANINGS:
                raise ValueError(f"the operator '{name}' has two meanings")
            MEANINGS[name] = Meaning(name, function, operands, kinds, required)
        return function

    return declare


def find_meaning(name: str) -> Meaning:
    """The row of an operator by PIR's name; an `OperatorError` names the nearest one known."""
    from polyreme.loaders import operators

    assert operators.SUBJECTS  # importing the subjects is what fills the table
    found = MEANINGS.get(name) or MEANINGS.get(name.removesuffix("_"))
    if found is None:
        raise OperatorError(f"the operator '{name}' is not supported{did_you_mean(name, MEANINGS)}", code="E0702")
    return found


# Attributes that say where, by which library or for whom an operator runs, never what it computes.
_IGNORED = {
    "struct_name", "place", "place_type", "stop_gradient", "persistable", "with_quant_attr", "num_threads", "is_test", "workspace_size_MB",
    "exhaustive_search",
    "mkldnn_data_type", "dst_place_type", "Scale_in", "Scale_out", "skip_quant", "enable_int8", "seed", "force_cpu", "numeric_stable_mode",
    "infer_flags",
    "is_distributed", "remote_prefetch", "is_sparse", "sparse", "execution_stream", "scheduling_priority", "event_to_record",
    "events_to_wait",
    "force_record_event", "manual_schedule",
}  # fmt: skip
_IGNORED_PREFIXES = ("op_", "use_", "__")


def is_meaningless(name: str, value: Any) -> bool:
    """Whether an attribute that a meaning does not know may be passed over: a hint, or an option that is off."""
    if name in _IGNORED or name.startswith(_IGNORED_PREFIXES):
        return True
    return value is None or value is False or (isinstance(value, (int, float, str, list, tuple)) and not value)


# --- conversions


def _converted(value: Any, kind: str, name: str) -> Any:
    convert = _CONVERT.get(kind)
    return value if convert is None else convert(value, name)


def _one_tensor(value: Any, name: str) -> Tensor:
    if isinstance(value, (list, tuple)) and len(value) == 1:
        (value,) = value
    if not isinstance(value, Tensor):
        raise OperatorError(f"expected one tensor as '{name}' but got {_text(value)}")
    return value


def _tensors(value: Any, name: str) -> list[Tensor]:
    items = list(value) if isinstance(value, (list, tuple)) else [value]
    if not all(isinstance(v, Tensor) for v in items):
        raise OperatorError(f"expected tensors as '{name}' but got {_text(value)}")
    return items


def _numbers(value: Any, name: str) -> list[Any]:
    found: list[Any] = []
    for item in value if isinstance(value, (list, tuple)) else [value]:
        found += _contents(item, name) if isinstance(item, Tensor) else [item]
    if not all(isinstance(v, (int, float, Expr)) for v in found):
        raise OperatorError(f"expected numbers as '{name}' but got {_text(value)}")
    return found


def _sizes(value: Any, name: str) -> list[Dim]:
    found = _numbers(value, name)
    for i, item in enumerate(found):
        if isinstance(item, float) and item.is_integer():
            found[i] = int(item)
        elif not isinstance(item, (int, Expr)) or isinstance(item, bool):
            raise OperatorError(f"expected whole numbers as '{name}' but got {_text(item)}")
    return found


def _contents(tensor: Tensor, name: str) -> list[Any]:
    known = known_contents(tensor)
    if known is None:
        raise OperatorError(
            f"expected '{name}' to follow from shapes and constants but it is computed from the model's inputs ({tensor.type})"
        )
    return list(known.reshape(-1))


def _number(value: Any, name: str) -> Any:
    found = _scalar(value, name)
    if isinstance(found, Tensor):
        raise OperatorError(f"expected '{name}' to be a number but it is computed from the model's inputs ({found.type})")
    return found


def _scalar(value: Any, name: str) -> Any:
    if isinstance(value, (list, tuple)) and len(value) == 1:
        (value,) = value
    if isinstance(value, Tensor):
        known = known_contents(value)
        if known is None or known.size != 1:
            return value
        (value,) = known.reshape(-1)
        return value
    if not isinstance(value, (int, float, Expr)):
        raise OperatorError(f"expected a number as '{name}' but got {_text(value)}")
    return value


def _dtype(value: Any, name: str) -> ScalarType | None:
    if isinstance(value, ScalarType):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        if value == -1:
            return None
        value = LEGACY_DTYPES.get(value, value)
    if value in ("undefined", "Undefined", ""):
        return None
    if not isinstance(value, str) or value not in DTYPES:
        raise OperatorError(f"expected a dtype as '{name}' but got {_text(value)}")
    return DTYPES[value].scalar


# `VarType.Type` of the legacy format.
LEGACY_DTYPES = {
    0: "bool", 1: "int16", 2: "int32", 3: "int64", 4: "float16", 5: "float32", 6: "float64", 20: "uint8", 21: "int8", 22: "bfloat16",
    23: "complex64",
    24: "complex128",
}  # fmt: skip


def _text(value: Any) -> str:
    if isinstance(value, Tensor):
        return f"a tensor ({value.type})"
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


def _plain(kind: type | tuple[type, ...], what: str) -> Callable[[Any, str], Any]:
    def convert(value: Any, name: str) -> Any:
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            raise OperatorError(f"expected {what} as '{name}' but got {_text(value)}")
        return value

    return convert


def _flag(value: Any, name: str) -> bool:
    if value not in (0, 1):
        raise OperatorError(f"expected true or false as '{name}' but got {_text(value)}")
    return bool(value)


_CONVERT: dict[str, Callable[[Any, str], Any]] = {
    "Tensor": _one_tensor,
    "Tensor | None": _one_tensor,
    "list[Tensor]": _tensors,
    "Sizes": _sizes,
    "Sizes | None": _sizes,
    "Numbers": _numbers,
    "Numbers | None": _numbers,
    "Number": _number,
    "Number | None": _number,
    "Scalar": _scalar,
    "Scalar | None": _scalar,
    "ScalarType | None": _dtype,
    "int": _plain(int, "a whole number"),
    "float": _plain((int, float), "a number"),
    "bool": _flag,
    "str": _plain(str, "text"),
}
