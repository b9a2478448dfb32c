"""A program of the nn level as Python source for torch, by a table from op to text; torch itself is not needed here.

Serves comparison: the source defines a `torch.nn.Module` whose parameters are the constants, which `load(path)` reads from an archive of
numpy's, so that whoever runs it needs torch and numpy only. Inference ops and known sizes only. An op without a row is an error that names
it and its line.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from polyreme.dialects import nn
from polyreme.exporters.idioms import group_norm, layer_norm, program, transposed_sizes
from polyreme.ir.builder import Builder
from polyreme.ir.builtin import Func, Module, Return
from polyreme.ir.core import Op, Value
from polyreme.ir.diagnostics import PolyremeError
from polyreme.ir.dims import Expr
from polyreme.ir.types import ScalarType
from polyreme.lowering.decompose import attention, normalization
from polyreme.lowering.decompose.look_at_positions import look

Rule = Callable[["ForwardSource", Any, Sequence[str]], str]
RULES: dict[type[Op], Rule] = {}

HEAD = '''"""A model for torch, written from Polyreme's IR."""

import numpy
import torch
from torch.nn import functional as F


def load(path):
    """The model with the weights in the archive `path`."""
    with numpy.load(path) as arrays:
        return Model({name: torch.from_numpy(arrays[name]) for name in arrays.files})


def lstm(x, first, weights):
    return torch.lstm(x, first, weights, True, 1, 0.0, False, False, False)[0]


# Not traced, as torch's own layer is not: unrolled over its steps it would take long to compile.
@torch.compiler.disable
def gru(x, first, weights):
    return torch.gru(x, first, weights, True, 1, 0.0, False, False, False)[0]


class Model(torch.nn.Module):
    def __init__(self, arrays):
        super().__init__()
        for name, array in arrays.items():
            if array.is_floating_point():
                self.register_parameter(name, torch.nn.Parameter(array, requires_grad=False))
            else:
                self.register_buffer(name, array)
'''


class TorchExportError(PolyremeError, ValueError):
    """A program that has no source for torch."""

    code = "E0707"


class ForwardSource:
    """The lines of `forward`, and the constants that they read."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.arrays: dict[str, Any] = {}

    def constant(self, array: Any) -> str:
        """The expression for a constant array."""
        name = f"c{len(self.arrays)}"
        self.arrays[name] = np.ascontiguousarray(array).reshape(np.shape(array))
        return f"self.{name}"

    def line(self, text: str) -> str:
        """A new value, and its name."""
        name = f"v{len(self.lines)}"
        self.lines.append(f"{name} = {text}")
        return name


def export_torch(module: Module) -> tuple[str, dict[str, Any]]:
    """The `main` of a module at the nn level as source, and the arrays that its `load` wants to find."""
    module = module.clone()
    main: Func = module.function()
    look(main, False)
    for op in list(main.block):
        if isinstance(op, nn.Standardize) and layer_norm(op) is None and not group_norm(op):
            b = Builder(main.block, op, op.location)
            op.replace_with(*normalization.standardize(op, b, op.x, op.weight, op.bias))
        elif isinstance(op, nn.Attention):
            op.replace_with(*attention.written_out(op, Builder(main.block, op, op.location), op.query, op.key, op.value, op.mask))
    source = ForwardSource()
    names: dict[Value, str] = {arg: f"x{i}" for i, arg in enumerate(main.args)}
    returned = ""
    for op, idiom in program(main):
        if idiom is not None:
            names[op.results[0]] = source.line(IDIOMS[idiom.kind](source, [names[v] for v in idiom.operands], idiom.numbers))
            continue
        operands = [names[v] for v in op.operands]
        if isinstance(op, Return):
            returned = f"return ({', '.join(operands)},)"
        elif isinstance(op, nn.Constant):
            names[op.result] = source.constant(op.value.array)
        elif isinstance(op, nn.Full):
            names[op.result] = (
                repr(op.value) if not op.shape else source.line(f"torch.full({_sizes(op.shape)}, {op.value!r}, dtype={_dtype(op.dtype)})")
            )
        elif isinstance(op, nn.Iota):
            names[op.result] = source.constant(op.reference(shape=tuple(_known(op.shape)), axis=op.axis, dtype=op.dtype))
        elif type(op) not in RULES:
            raise TorchExportError(f"export for torch has no rule for '{op.name}'", op.location)
        else:
            names[op.results[0]] = source.line(RULES[type(op)](source, op, operands))
    arguments = ", ".join(["self", *(f"x{i}" for i in range(len(main.args)))])
    body = "".join(f"        {line}\n" for line in [*source.lines, returned])
    return f"{HEAD}\n    def forward({arguments}):\n{body}", source.arrays


def _known(sizes: Sequence[Any]) -> Sequence[Any]:
    for size in sizes:
        if isinstance(size, Expr):
            raise TorchExportError(f"export for torch expected a known size but got '{size}'; fix it with --size or --input")
    return sizes


def _sizes(sizes: Sequence[Any]) -> str:
    _known(sizes)
    return f"({', '.join(map(str, sizes))}{',' if len(sizes) == 1 else ''})"


def _dtype(dtype: ScalarType) -> str:
    return f"torch.{dtype.np.name}"


def _rule(*classes: type[Op]) -> Callable[[Rule], Rule]:
    def add(rule: Rule) -> Rule:
        RULES.update(dict.fromkeys(classes, rule))
        return rule

    return add


_PLAIN = {
    nn.Add: "{} + {}", nn.Sub: "{} - {}", nn.Mul: "{} * {}", nn.Div: "{} / {}", nn.Pow: "torch.pow({}, {})",
    nn.Atan2: "torch.atan2({}, {})", nn.Maximum: "torch.maximum({}, {})",
    nn.Minimum: "torch.minimum({}, {})", nn.Neg: "-{}", nn.Abs: "torch.abs({})", nn.Exp: "torch.exp({})", nn.Log: "torch.log({})",
    nn.Sqrt: "torch.sqrt({})",
    nn.Rsqrt: "torch.rsqrt({})", nn.Reciprocal: "torch.reciprocal({})", nn.Square: "torch.square({})", nn.Sin: "torch.sin({})",
    nn.Cos: "torch.cos({})",
    nn.Tanh: "torch.tanh({})", nn.Sigmoid: "torch.sigmoid({})", nn.Erf: "torch.erf({})", nn.Floor: "torch.floor({})",
    nn.Ceil: "torch.ceil({})",
    nn.Sign: "torch.sign({})", nn.Relu: "F.relu({})", nn.Silu: "F.silu({})", nn.Where: "torch.where({}, {}, {})", nn.Equal: "{} == {}",
    nn.Less: "{} < {}",
    nn.LessEqual: "{} <= {}", nn.Greater: "{} > {}", nn.GreaterEqual: "{} >= {}", nn.LogicalAnd: "torch.logical_and({}, {})",
    nn.LogicalOr: "torch.logical_or({}, {})", nn.LogicalNot: "torch.logical_not({})", nn.LogicalXor: "torch.logical_xor({}, {})",
    nn.NotEqual: "{} != {}",
    nn.Mod: "torch.remainder({}, {})", nn.Softplus: "F.softplus({})", nn.Tan: "torch.tan({})", nn.Atan: "torch.atan({})",
    nn.Asin: "torch.asin({})", nn.Acos: "torch.acos({})",
    nn.Sinh: "torch.sinh({})", nn.Cosh: "torch.cosh({})", nn.Round: "torch.round({})",
}  # fmt: skip
for _cls, _text in _PLAIN.items():
    RULES[_cls] = lambda source, op, operands, text=_text: text.format(*operands)  # type: ignore[misc]


@_rule(nn.LeakyRelu)
def _leaky_relu(source: ForwardSource, op: Any, operands: Sequence[str]) -> str:
    return f"F.leaky_relu({operands[0]}, {op.alpha!r})"


@_rule(nn.Gelu)
def _gelu(source: ForwardSource, op: Any, operands: Sequence[str]) -> str:
    return f"F.gelu({operands[0]}, approximate={'tanh' if op.approximate else 'none'!r})"


@_rule(nn.Cast)
def _cast(source: ForwardSource, op: Any, operands: Sequence[str]) -> str:
    return f"{operands[0]}.to({_dtype(op.dtype)})"


@_rule(nn.MatMul)
def _matmul(source: ForwardSource, op: Any, operands: Sequence[str]) -> str:
    sides = [
        f"{name}.transpose(-1, -2)" if flip and value.type.rank > 1 else name
        for value, name, flip in zip(op.operands, operands, (op.transpose_x, op.transpose_y), strict=True)
    ]
    return f"torch.matmul({', '.join(sides)})"


@_rule(nn.Linear)
def _linear(source: ForwardSource, op: Any, operands: Sequence[str]) -> str:
    # A constant weight is turned around now, into the order that torch has.
    weight = f"{operands[1]}.t()"
    if operands[1].startswith("self."):
        name = operands[1].removeprefix("self.")
        turned = f"{name}_t"
        source.arrays.setdefault(turned, np.ascontiguousarray(source.arrays[name].T))
        weight = f"self.{turned}"
    return f"F.linear({', '.join([operands[0], weight, *operands[2:]])})"


def _pairs(padding: Sequence[Any], rank: int) -> list[tuple[Any, Any]]:
    """(low, high) of each axis."""
    flat = list(padding) or [0] * (2 * rank)
    return list(zip(flat[0::2], flat[1::2], strict=True))


def _padded(source: ForwardSource, x: str, padding: Sequence[Any], rank: int, value: str) -> tuple[str, str]:
    """The input and its symmetric padding; what is not symmetric is padded before."""
    pairs = _pairs(padding, rank)
    if all(low == high for low, high in pairs):
        return x, _sizes([low for low, _ in pairs])
    flat = [str(n) for pair in reversed(pairs) for n in pair]
    return source.line(f"F.pad({x}, ({', '.join(flat)}), value={value})"), _sizes([0] * rank)


@_rule(nn.Conv)
def _conv(source: ForwardSource, op: Any, operands: Sequence[str]) -> str:
    rank = op.x.type.rank - 2
    x, padding = _padded(source, operands[0], op.padding, rank, "0.0")
    numbers = (
        f"stride={_sizes(op.strides or [1] * rank)}, padding={padding}, dilation={_sizes(op.dilations or [1] * rank)}, groups={op.groups}"
    )
    return f"F.conv{rank}d({', '.join([x, *operands[1:]])}, {numbers})"


@_rule(nn.ConvTranspose)
def _conv_transpose(source: ForwardSource, op: Any, operands: Sequence[str]) -> str:
    rank = op.x.type.rank - 2
    strides, dilations, more = transposed_sizes(op)
    pairs = _pairs(op.padding, rank)
    if any(low != high for low, high in pairs):
        raise TorchExportError("export for torch expected symmetric padding of a transposed convolution", op.location)
    padding = _sizes([low for low, _ in pairs])
    numbers = f"stride={_sizes(strides)}, padding={padding}, output_padding={_sizes(more)}"
    numbers += f", groups={op.groups}, dilation={_sizes(dilations)}"
    return f"F.conv_transpose{rank}d({', '.join(operands)}, None, {numbers})"


@_rule(nn.BatchNorm)
def _batch_norm(source: ForwardSource, op: Any, operands: Sequence[str]) -> str:
    if op.axis % op.x.type.rank != 1:
        raise TorchExportError("export for torch expected the channels of a batch norm at axis 1", op.location)
    x, mean, variance, *rest = operands
    weight = rest.pop(0) if op.weight is not None else "None"
    bias = rest.pop(0) if op.bias is not None else "None"
    return f"F.batch_norm({x}, {mean}, {variance}, {weight}, {bias}, False, 0.0, {op.epsilon!r})"


@_rule(nn.Standardize)
def _norm(source: ForwardSource, op: Any, operands: Sequence[str]) -> str:
    return (_group_norm if layer_norm(op) is None else _layer_norm)(source, op, operands)


def _group_norm(source: ForwardSource, op: Any, operands: Sequence[str]) -> str:
    x, *rest = operands
    shape = _known(op.x.type.shape)
    weight = f"weight={rest.pop(0)}.reshape(-1), " if op.weight is not None else ""
    bias = f"bias={rest.pop(0)}.reshape(-1), " if op.bias is not None else ""
    if len(op.affine) < 2:
        return f"F.instance_norm({x}, {weight}{bias}eps={op.epsilon!r})"
    flat = _sizes([shape[0], shape[1] * shape[2], *shape[3:]])
    return f"F.group_norm({x}.reshape({flat}), {shape[1]}, {weight}{bias}eps={op.epsilon!r}).reshape({_sizes(shape)})"


def _layer_norm(source: ForwardSource, op: Any, operands: Sequence[str]) -> str:
    x, *rest = operands
    sizes = _sizes(layer_norm(op) or ())
    weight = f"{rest.pop(0)}.reshape({sizes})" if op.weight is not None else "None"
    bias = f"{rest.pop(0)}.reshape({sizes})" if op.bias is not None else "None"
    return f"F.layer_norm({x}, {sizes}, {weight}, {bias}, {op.epsilon!r})"


@_rule(nn.MaxPool, nn.AvgPool)
def _pool(source: ForwardSource, op: Any, operands: Sequence[str]) -> str:
    rank, largest = len(op.kernel), isinstance(op, nn.MaxPool)
    low = "float('-inf')" if largest else "0.0"
    x, padding = _padded(source, operands[0], op.padding, rank, low)
    if x != operands[0] and not largest and op.exclusive:
        raise TorchExportError("export for torch expected symmetric padding of an average that leaves it out", op.location)
    numbers = f"{_sizes(op.kernel)}, {_sizes(op.strides or op.kernel)}, {padding}, ceil_mode={op.ceil_mode}"
    return f"F.max_pool{rank}d({x}, {numbers})" if largest else f"F.avg_pool{rank}d({x}, {numbers}, count_include_pad={not op.exclusive})"


@_rule(nn.Softmax, nn.LogSoftmax)
def _softmax(source: ForwardSource, op: Any, operands: Sequence[str]) -> str:
    return f"F.{'softmax' if isinstance(op, nn.Softmax) else 'log_softmax'}({operands[0]}, {op.axis})"


@_rule(nn.Sum, nn.Mean, nn.Max, nn.Min)
def _reduce(source: ForwardSource, op: Any, operands: Sequence[str]) -> str:
    function = {"nn.sum": "sum", "nn.mean": "mean", "nn.max": "amax", "nn.min": "amin"}[op.name]
    return f"torch.{function}({operands[0]}, {_sizes(op.axis or range(op.x.type.rank))}, keepdim={op.keepdims})"


@_rule(nn.Reshape)
def _reshape(source: ForwardSource, op: Any, operands: Sequence[str]) -> str:
    return f"{operands[0]}.reshape({_sizes(op.shape)})"


@_rule(nn.Transpose)
def _transpose(source: ForwardSource, op: Any, operands: Sequence[str]) -> str:
    return f"{operands[0]}.permute({_sizes(op.perm)})"


@_rule(nn.BroadcastTo)
def _broadcast(source: ForwardSource, op: Any, operands: Sequence[str]) -> str:
    return f"{operands[0]}.expand({_sizes(op.shape)})"


@_rule(nn.Concat)
def _concat(source: ForwardSource, op: Any, operands: Sequence[str]) -> str:
    return f"torch.cat(({', '.join(operands)},), {op.axis})"


@_rule(nn.Slice)
def _slice(source: ForwardSource, op: Any, operands: Sequence[str]) -> str:
    parts = [f"{a}:{b}:{c}" for a, b, c in zip(op.starts, op.stops, op.strides or [1] * len(op.starts), strict=True)]
    return f"{operands[0]}[{', '.join(parts)}]"


@_rule(nn.Pad)
def _pad(source: ForwardSource, op: Any, operands: Sequence[str]) -> str:
    if any(op.interior):
        raise TorchExportError("export for torch has no rule for padding between elements", op.location)
    flat = [n for pair in reversed(_pairs(op.padding, op.x.type.rank)) for n in pair]
    return f"F.pad({operands[0]}, {_sizes(flat)}, value={op.value!r})"


@_rule(nn.ScatterAdd)
def _scatter_add(source: ForwardSource, op: Any, operands: Sequence[str]) -> str:
    if op.index.type.rank != 1:
        raise TorchExportError("export for torch expected a vector of positions to add to", op.location)
    zeros = f"torch.zeros({_sizes(op.result.type.shape)}, dtype={_dtype(op.updates.type.dtype)})"
    return f"{zeros}.index_add({op.axis}, {operands[1]}, {operands[0]})"


@_rule(nn.ArgMax, nn.ArgMin)
def _arg_reduce(source: ForwardSource, op: Any, operands: Sequence[str]) -> str:
    return f"torch.{type(op).__name__.lower()}({operands[0]}, {op.axis}, {op.keepdims}).to({_dtype(op.dtype)})"


@_rule(nn.Cumsum)
def _cumsum(source: ForwardSource, op: Any, operands: Sequence[str]) -> str:
    return f"torch.cumsum({operands[0]}, {op.axis})"


@_rule(nn.Flip)
def _flip(source: ForwardSource, op: Any, operands: Sequence[str]) -> str:
    return f"torch.flip({operands[0]}, {_sizes(op.axes)})"


@_rule(nn.Gather)
def _gather(source: ForwardSource, op: Any, operands: Sequence[str]) -> str:
    x, positions = operands
    before = ":, " * (op.axis % op.x.type.rank)
    return f"{x}[{before}{positions}]"


# --- ops that the nn level says in several, as `idioms.py` finds them


def _recurrent(function: str) -> Callable[[ForwardSource, Sequence[str], dict[str, Any]], str]:
    def rule(source: ForwardSource, operands: Sequence[str], numbers: dict[str, Any]) -> str:
        weights = ", ".join(source.constant(numbers[name]) for name in ("inputs", "weight", "bias", "own_bias"))
        hidden = numbers["weight"].shape[1]
        state = source.line(f"torch.zeros(1, {operands[0]}.shape[1], {hidden}, dtype={operands[0]}.dtype)")
        first = f"({state}, {state})" if function == "lstm" else state
        if not numbers["reverse"]:
            return f"{function}({operands[0]}, {first}, [{weights}])"
        return f"{function}({operands[0]}.flip(0), {first}, [{weights}]).flip(0)"

    return rule


def _enlarge(source: ForwardSource, operands: Sequence[str], numbers: dict[str, Any]) -> str:
    for axis, times in enumerate(numbers["axes"]):
        if times > 1:
            operands = [source.line(f"{operands[0]}.repeat_interleave({times}, {axis})")]
    return operands[0]


def _reflect(source: ForwardSource, operands: Sequence[str], numbers: dict[str, Any]) -> str:
    pairs = numbers["axes"]
    first = min(axis for axis, pair in enumerate(pairs) if any(pair))
    flat = [n for pair in reversed(pairs[first:]) for n in pair]
    return f"F.pad({operands[0]}, {_sizes(flat)}, mode='reflect')"


IDIOMS: dict[str, Callable[[ForwardSource, Sequence[str], dict[str, Any]], str]] = {
    "clip": lambda source, operands, numbers: f"torch.clamp({operands[0]}, {numbers['low']!r}, {numbers['high']!r})",
    "hard_sigmoid": lambda source, operands, numbers: (
        f"F.hardsigmoid({operands[0]})"
        if abs(numbers["slope"] * 6 - 1) < 1e-6 and numbers["offset"] == 0.5
        else f"torch.clamp({operands[0]} * {numbers['slope']!r} + {numbers['offset']!r}, 0.0, 1.0)"
    ),
    "hard_swish": lambda source, operands, numbers: f"F.hardswish({operands[0]})",
    "enlarge": _enlarge,
    "reflect": _reflect,
    "lstm": _recurrent("lstm"),
    "gru": _recurrent("gru"),
}
