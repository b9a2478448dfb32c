"""A program of the nn level as an ONNX model, by a table from op to ONNX nodes; needs the package `onnx` (extra `peers`).

Serves comparison with runtimes that read ONNX: inference ops only, opset 17. Weights that are constants become initialisers, free sizes
become named dimensions. An op without a row is an error that names it and its line.
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
from polyreme.ir.dims import Expr, symbols
from polyreme.ir.types import TensorType
from polyreme.lowering.decompose import attention, normalization
from polyreme.lowering.decompose.look_at_positions import look
from polyreme.lowering.transforms.cleanup import Dce

OPSET = 17
# The newest file version that every runtime with this opset reads.
IR_VERSION = 8

Rule = Callable[["OnnxGraph", Any, Sequence[str]], str]
RULES: dict[type[Op], Rule] = {}


class ExportError(PolyremeError, ValueError):
    """A program that ONNX cannot say, or a missing package."""

    code = "E0707"


def _onnx() -> Any:
    try:
        import onnx
    except ImportError:
        raise ExportError(
            "expected the package 'onnx' to write an ONNX model but it is not installed: pip install 'polyreme[peers]'", code="E0007"
        ) from None
    return onnx


class OnnxGraph:
    """Nodes and initialisers of a model that is being written."""

    def __init__(self) -> None:
        self.onnx = _onnx()
        self.nodes: list[Any] = []
        self.initializers: list[Any] = []

    def add(self, kind: str, *inputs: str, **attributes: Any) -> str:
        """Append a node; returns the name of its output."""
        name = f"v{len(self.nodes)}"
        self.nodes.append(self.onnx.helper.make_node(kind, list(inputs), [name], **attributes))
        return name

    def constant(self, array: Any) -> str:
        """An initialiser; returns its name."""
        name = f"c{len(self.initializers)}"
        self.initializers.append(self.onnx.numpy_helper.from_array(np.ascontiguousarray(array), name))
        return name

    def integers(self, values: Sequence[Any]) -> str:
        """A list of whole numbers as a constant."""
        return self.constant(np.array([_known(v) for v in values], np.int64))


def export_onnx(module: Module) -> bytes:
    """The `main` of a module at the nn level as the bytes of an ONNX file; arguments become inputs under their own names."""
    graph = OnnxGraph()
    helper = graph.onnx.helper
    module = module.clone()
    main: Func = module.function()
    look(main, False)
    _take_apart(main)
    Dce().run(module)
    names: dict[Value, str] = {}
    inputs = []
    for i, arg in enumerate(main.args):
        names[arg] = arg.name or f"x{i}"
        inputs.append(_value_info(helper, names[arg], arg.type))
    outputs: list[Any] = []
    for op, idiom in program(main):
        if idiom is not None:
            names[op.results[0]] = IDIOMS[idiom.kind](graph, [names[v] for v in idiom.operands], idiom.numbers)
            continue
        operands = [names[v] for v in op.operands]
        if isinstance(op, Return):
            wanted = main.result_names or [f"y{i}" for i in range(len(operands))]
            for name, source, value in zip(wanted, operands, op.operands, strict=True):
                graph.nodes.append(helper.make_node("Identity", [source], [f"out_{name}"]))
                outputs.append(_value_info(helper, f"out_{name}", value.type))
            continue
        rule = RULES.get(type(op))
        if rule is None:
            raise ExportError(f"ONNX export has no rule for '{op.name}'", op.location)
        names[op.results[0]] = rule(graph, op, operands)
    made = helper.make_graph(graph.nodes, "main", inputs, outputs, graph.initializers)
    model = helper.make_model(made, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION, producer_name="polyreme")
    data: bytes = model.SerializeToString()
    return data


def _take_apart(main: Func) -> None:
    """What ONNX has in parts only: norms by their own statistics that are no layer, instance or group norms, and batch norms of channels
    that are not at axis 1.
    """
    for op in list(main.block):
        if isinstance(op, nn.Standardize) and layer_norm(op) is None and not group_norm(op):
            b = Builder(main.block, op, op.location)
            op.replace_with(*normalization.standardize(op, b, op.x, op.weight, op.bias))
        elif isinstance(op, nn.Attention):
            op.replace_with(*attention.written_out(op, Builder(main.block, op, op.location), op.query, op.key, op.value, op.mask))
        elif isinstance(op, nn.BatchNorm) and op.axis % op.x.type.rank != 1:
            b = Builder(main.block, op, op.location)
            op.replace_with(normalization.batch_norm(op, b, op.x, op.mean, op.variance, op.weight, op.bias))


def _value_info(helper: Any, name: str, type: TensorType) -> Any:
    return helper.make_tensor_value_info(
        name, helper.np_dtype_to_tensor_dtype(type.dtype.np), [str(d) if isinstance(d, Expr) else d for d in type.shape]
    )


def _known(size: Any) -> int:
    if isinstance(size, Expr):
        raise ExportError(f"ONNX export expected a known size but got '{size}'; fix it with --size or --input")
    return int(size)


def _pads(padding: Sequence[Any], rank: int) -> list[int]:
    """(low, high) pairs as ONNX lists them: all lows, then all highs."""
    flat = [_known(p) for p in padding] or [0] * (2 * rank)
    return [*flat[0::2], *flat[1::2]]


def _rule(*classes: type[Op]) -> Callable[[Rule], Rule]:
    def add(rule: Rule) -> Rule:
        RULES.update(dict.fromkeys(classes, rule))
        return rule

    return add


_PLAIN = {
    nn.Add: "Add", nn.Sub: "Sub", nn.Mul: "Mul", nn.Div: "Div", nn.Pow: "Pow", nn.Maximum: "Max", nn.Minimum: "Min", nn.Neg: "Neg",
    nn.Abs: "Abs", nn.Exp: "Exp", nn.Log: "Log", nn.Sqrt: "Sqrt", nn.Reciprocal: "Reciprocal", nn.Sin: "Sin", nn.Cos: "Cos",
    nn.Tanh: "Tanh",
    nn.Sigmoid: "Sigmoid", nn.Erf: "Erf", nn.Floor: "Floor", nn.Ceil: "Ceil", nn.Sign: "Sign", nn.Relu: "Relu", nn.Where: "Where",
    nn.Equal: "Equal", nn.Less: "Less", nn.LessEqual: "LessOrEqual", nn.Greater: "Greater", nn.GreaterEqual: "GreaterOrEqual",
    nn.LogicalAnd: "And", nn.LogicalOr: "Or", nn.LogicalNot: "Not",
    nn.LogicalXor: "Xor", nn.Mod: "Mod", nn.Softplus: "Softplus", nn.Tan: "Tan", nn.Atan: "Atan", nn.Asin: "Asin", nn.Acos: "Acos",
    nn.Sinh: "Sinh", nn.Cosh: "Cosh", nn.Round: "Round",
}  # fmt: skip
for _cls, _kind in _PLAIN.items():
    RULES[_cls] = lambda graph, op, operands, kind=_kind: graph.add(kind, *operands)  # type: ignore[misc]


@_rule(nn.Constant)
def _constant(graph: OnnxGraph, op: Any, operands: Sequence[str]) -> str:
    return graph.constant(op.value.array)


@_rule(nn.Full)
def _full(graph: OnnxGraph, op: Any, operands: Sequence[str]) -> str:
    return graph.constant(np.full([_known(d) for d in op.shape], op.value, op.dtype.np))


@_rule(nn.Iota)
def _iota(graph: OnnxGraph, op: Any, operands: Sequence[str]) -> str:
    return graph.constant(op.reference(shape=tuple(_known(d) for d in op.shape), axis=op.axis, dtype=op.dtype))


@_rule(nn.Square)
def _square(graph: OnnxGraph, op: Any, operands: Sequence[str]) -> str:
    return graph.add("Mul", operands[0], operands[0])


@_rule(nn.Rsqrt)
def _rsqrt(graph: OnnxGraph, op: Any, operands: Sequence[str]) -> str:
    return graph.add("Reciprocal", graph.add("Sqrt", operands[0]))


@_rule(nn.Silu)
def _silu(graph: OnnxGraph, op: Any, operands: Sequence[str]) -> str:
    return graph.add("Mul", operands[0], graph.add("Sigmoid", operands[0]))


@_rule(nn.Gelu)
def _gelu(graph: OnnxGraph, op: Any, operands: Sequence[str]) -> str:
    # In the form that runtimes know as one op.
    x, number = operands[0], op.x.type.dtype.np.type
    constant = lambda value: graph.constant(np.array(value, number))
    if op.approximate:
        cube = graph.add("Mul", graph.add("Pow", x, constant(3)), constant(0.044715))
        inner = graph.add("Tanh", graph.add("Mul", graph.add("Add", x, cube), constant((2 / np.pi) ** 0.5)))
    else:
        inner = graph.add("Erf", graph.add("Div", x, constant(2**0.5)))
    return graph.add("Mul", graph.add("Mul", x, graph.add("Add", inner, constant(1))), constant(0.5))


@_rule(nn.NotEqual)
def _not_equal(graph: OnnxGraph, op: Any, operands: Sequence[str]) -> str:
    return graph.add("Not", graph.add("Equal", *operands))


@_rule(nn.Pad)
def _pad(graph: OnnxGraph, op: Any, operands: Sequence[str]) -> str:
    if any(op.interior):
        raise ExportError("ONNX export has no rule for padding between elements", op.location)
    return graph.add(
        "Pad", operands[0], graph.integers(_pads(op.padding, op.x.type.rank)), graph.constant(np.array(op.value, op.x.type.dtype.np))
    )


@_rule(nn.ScatterAdd)
def _scatter_add(graph: OnnxGraph, op: Any, operands: Sequence[str]) -> str:
    if op.axis != 0:
        raise ExportError("ONNX export expected positions along axis 0 to add to", op.location)
    zeros = graph.constant(np.zeros([_known(d) for d in op.result.type.shape], op.updates.type.dtype.np))
    return graph.add("ScatterND", zeros, graph.add("Unsqueeze", operands[1], graph.integers([-1])), operands[0], reduction="add")


@_rule(nn.ArgMax, nn.ArgMin)
def _arg_reduce(graph: OnnxGraph, op: Any, operands: Sequence[str]) -> str:
    place = graph.add(type(op).__name__, operands[0], axis=op.axis, keepdims=int(op.keepdims))
    return place if op.dtype.np == np.int64 else graph.add("Cast", place, to=graph.onnx.helper.np_dtype_to_tensor_dtype(op.dtype.np))


@_rule(nn.Cumsum)
def _cumsum(graph: OnnxGraph, op: Any, operands: Sequence[str]) -> str:
    return graph.add("CumSum", operands[0], graph.constant(np.array(op.axis, np.int64)))


@_rule(nn.Flip)
def _flip(graph: OnnxGraph, op: Any, operands: Sequence[str]) -> str:
    count = len(op.axes)
    return graph.add(
        "Slice",
        operands[0],
        graph.integers([-1] * count),
        graph.integers([np.iinfo(np.int64).min] * count),
        graph.integers(op.axes),
        graph.integers([-1] * count),
    )


@_rule(nn.Standardize)
def _norm(graph: OnnxGraph, op: Any, operands: Sequence[str]) -> str:
    return (_group_norm if layer_norm(op) is None else _layer_norm)(graph, op, operands)


def _group_norm(graph: OnnxGraph, op: Any, operands: Sequence[str]) -> str:
    """An instance norm of the groups, then the weights, which an instance norm has for itself."""
    shape, dtype = [_known(d) for d in op.x.type.shape], op.x.type.dtype.np
    ones, zeros = graph.constant(np.ones(shape[1], dtype)), graph.constant(np.zeros(shape[1], dtype))
    rest = list(operands[1:])
    weight, bias = (rest.pop(0) if given is not None else None for given in (op.weight, op.bias))
    own = len(op.affine) < 2
    flat = operands[0] if own else graph.add("Reshape", operands[0], graph.integers([*shape[:2], -1]))
    y = graph.add("InstanceNormalization", flat, (own and weight) or ones, (own and bias) or zeros, epsilon=op.epsilon)
    if own:
        return y
    y = graph.add("Reshape", y, graph.integers(shape))
    for kind, name in (("Mul", weight), ("Add", bias)):
        if name is not None:
            y = graph.add(kind, y, graph.add("Reshape", name, graph.integers([*shape[1:3], *[1] * (len(shape) - 3)])))
    return y


def _layer_norm(graph: OnnxGraph, op: Any, operands: Sequence[str]) -> str:
    sizes, dtype = [_known(d) for d in layer_norm(op) or ()], op.x.type.dtype.np
    given = list(operands[1:])
    scale = given.pop(0) if op.weight is not None else graph.constant(np.ones(sizes, dtype))
    if op.weight is not None and len(sizes) > 1:
        scale = graph.add("Reshape", scale, graph.integers(sizes))
    bias = [graph.add("Reshape", b, graph.integers(sizes)) if len(sizes) > 1 else b for b in given]
    return graph.add("LayerNormalization", operands[0], scale, *bias, axis=-len(sizes), epsilon=op.epsilon)


@_rule(nn.Gather)
def _gather(graph: OnnxGraph, op: Any, operands: Sequence[str]) -> str:
    return graph.add("Gather", *operands, axis=op.axis)


@_rule(nn.LeakyRelu)
def _leaky_relu(graph: OnnxGraph, op: Any, operands: Sequence[str]) -> str:
    return graph.add("LeakyRelu", operands[0], alpha=op.alpha)


@_rule(nn.Cast)
def _cast(graph: OnnxGraph, op: Any, operands: Sequence[str]) -> str:
    return graph.add("Cast", operands[0], to=graph.onnx.helper.np_dtype_to_tensor_dtype(op.dtype.np))


@_rule(nn.MatMul)
def _matmul(graph: OnnxGraph, op: Any, operands: Sequence[str]) -> str:
    sides = []
    for value, name, flip in zip(op.operands, operands, (op.transpose_x, op.transpose_y), strict=True):
        order = [*range(value.type.rank - 2), value.type.rank - 1, value.type.rank - 2]
        sides.append(graph.add("Transpose", name, perm=order) if flip and value.type.rank > 1 else name)
    return graph.add("MatMul", *sides)


@_rule(nn.Linear)
def _linear(graph: OnnxGraph, op: Any, operands: Sequence[str]) -> str:
    if op.x.type.rank == 2:
        return graph.add("Gemm", *operands)
    product = graph.add("MatMul", *operands[:2])
    return graph.add("Add", product, operands[2]) if len(operands) > 2 else product


@_rule(nn.Conv)
def _conv(graph: OnnxGraph, op: Any, operands: Sequence[str]) -> str:
    rank = op.x.type.rank - 2
    return graph.add(
        "Conv",
        *operands,
        strides=[_known(s) for s in op.strides] or [1] * rank,
        dilations=[_known(d) for d in op.dilations] or [1] * rank,
        pads=_pads(op.padding, rank),
        group=_known(op.groups),
    )


@_rule(nn.ConvTranspose)
def _conv_transpose(graph: OnnxGraph, op: Any, operands: Sequence[str]) -> str:
    rank = op.x.type.rank - 2
    strides, dilations, more = transposed_sizes(op)
    numbers = {"strides": strides, "dilations": dilations, "pads": _pads(op.padding, rank), "output_padding": more}
    return graph.add("ConvTranspose", *operands, group=_known(op.groups), **numbers)


@_rule(nn.QuantizeLinear)
def _quantize_linear(graph: OnnxGraph, op: Any, operands: Sequence[str]) -> str:
    """As uint8, 128 above the same integers: what libraries multiply fastest on x86."""
    if op.bit_length != 8:
        raise ExportError(f"ONNX export expected integers of 8 bits but got {op.bit_length}", op.location)
    return graph.add("QuantizeLinear", operands[0], operands[1], graph.constant(_zero_point(op, unsigned=True)), axis=op.axis)


@_rule(nn.DequantizeLinear)
def _dequantize_linear(graph: OnnxGraph, op: Any, operands: Sequence[str]) -> str:
    unsigned = op.x.producer(nn.QuantizeLinear) is not None
    return graph.add("DequantizeLinear", operands[0], operands[1], graph.constant(_zero_point(op, unsigned)), axis=op.axis)


def _zero_point(op: Any, unsigned: bool) -> Any:
    """The zero point of an op, as uint8 128 above what it is or as it is."""
    zero = np.zeros([_known(d) for d in op.scale.type.shape], np.int8)
    if op.zero_point is not None:
        constant = op.zero_point.producer(nn.Constant)
        if constant is None:
            raise ExportError("ONNX export expected a constant as zero point", op.location)
        zero = constant.value.array
    return (zero.astype(np.int16) + 128).astype(np.uint8) if unsigned else zero


@_rule(nn.BatchNorm)
def _batch_norm(graph: OnnxGraph, op: Any, operands: Sequence[str]) -> str:
    x, mean, variance, *rest = operands
    shape, dtype = [_known(op.x.type.shape[1])], op.x.type.dtype.np
    scale = rest.pop(0) if op.weight is not None else graph.constant(np.ones(shape, dtype))
    bias = rest.pop(0) if op.bias is not None else graph.constant(np.zeros(shape, dtype))
    return graph.add("BatchNormalization", x, scale, bias, mean, variance, epsilon=op.epsilon)


@_rule(nn.MaxPool, nn.AvgPool)
def _pool(graph: OnnxGraph, op: Any, operands: Sequence[str]) -> str:
    kernel = [_known(k) for k in op.kernel]
    attributes: dict[str, Any] = {"kernel_shape": kernel, "strides": [_known(s) for s in op.strides] or kernel}
    attributes |= {"pads": _pads(op.padding, len(kernel)), "ceil_mode": int(op.ceil_mode)}
    if isinstance(op, nn.MaxPool):
        return graph.add("MaxPool", operands[0], **attributes)
    return graph.add("AveragePool", operands[0], count_include_pad=int(not op.exclusive), **attributes)


@_rule(nn.Softmax, nn.LogSoftmax)
def _softmax(graph: OnnxGraph, op: Any, operands: Sequence[str]) -> str:
    return graph.add("Softmax" if isinstance(op, nn.Softmax) else "LogSoftmax", operands[0], axis=op.axis)


@_rule(nn.Sum, nn.Mean, nn.Max, nn.Min, nn.Prod)
def _reduce(graph: OnnxGraph, op: Any, operands: Sequence[str]) -> str:
    axes = list(op.axis) or list(range(op.x.type.rank))
    if op.name == "nn.sum":  # the one reduction whose axes are an input in this opset
        return graph.add("ReduceSum", operands[0], graph.integers(axes), keepdims=int(op.keepdims))
    return graph.add(f"Reduce{type(op).__name__}", operands[0], axes=axes, keepdims=int(op.keepdims))


@_rule(nn.Reshape)
def _reshape(graph: OnnxGraph, op: Any, operands: Sequence[str]) -> str:
    free = [i for i, d in enumerate(op.shape) if isinstance(d, Expr)]
    if len(free) > 1:
        raise ExportError(f"ONNX export expected at most one free size in a reshape but got {', '.join(map(str, op.shape))}", op.location)
    return graph.add("Reshape", operands[0], graph.integers([-1 if i in free else d for i, d in enumerate(op.shape)]))


@_rule(nn.Transpose)
def _transpose(graph: OnnxGraph, op: Any, operands: Sequence[str]) -> str:
    return graph.add("Transpose", operands[0], perm=list(op.perm))


@_rule(nn.BroadcastTo)
def _broadcast(graph: OnnxGraph, op: Any, operands: Sequence[str]) -> str:
    if symbols_of(op.shape):
        raise ExportError("ONNX export expected known sizes to broadcast to; fix them with --size or --input", op.location)
    return graph.add("Expand", operands[0], graph.integers(op.shape))


@_rule(nn.Concat)
def _concat(graph: OnnxGraph, op: Any, operands: Sequence[str]) -> str:
    return graph.add("Concat", *operands, axis=op.axis)


@_rule(nn.Slice)
def _slice(graph: OnnxGraph, op: Any, operands: Sequence[str]) -> str:
    # A stop at the very end may be a free size: ONNX clamps what lies beyond.
    stops = [np.iinfo(np.int64).max if stop == size else stop for stop, size in zip(op.stops, op.x.type.shape, strict=True)]
    axes = range(op.x.type.rank)
    return graph.add(
        "Slice", operands[0], graph.integers(op.starts), graph.integers(stops), graph.integers(axes), graph.integers(op.strides)
    )


def symbols_of(shape: Sequence[Any]) -> frozenset[str]:
    """Names of the free sizes of a shape."""
    return frozenset().union(*(symbols(d) for d in shape))


# --- ops that the nn level says in several, as `idioms.py` finds them


def _clip(graph: OnnxGraph, operands: Sequence[str], numbers: dict[str, Any]) -> str:
    return graph.add("Clip", operands[0], *(graph.constant(np.float32(numbers[bound])) for bound in ("low", "high")))


def _hard_sigmoid(graph: OnnxGraph, operands: Sequence[str], numbers: dict[str, Any]) -> str:
    return graph.add("HardSigmoid", operands[0], alpha=numbers["slope"], beta=numbers["offset"])


def _hard_swish(graph: OnnxGraph, operands: Sequence[str], numbers: dict[str, Any]) -> str:
    return graph.add("HardSwish", operands[0])


def _recurrent(kind: str, order: str, wanted: str) -> Callable[[OnnxGraph, Sequence[str], dict[str, Any]], str]:
    """A layer whose gates stand as in `order` here, and as in `wanted` there."""

    def rule(graph: OnnxGraph, operands: Sequence[str], numbers: dict[str, Any]) -> str:
        hidden = numbers["weight"].shape[1]
        sort = lambda array: np.concatenate([array[order.index(gate) * hidden :][:hidden] for gate in wanted])
        weights = [sort(numbers[name])[None] for name in ("inputs", "weight")]
        bias = np.concatenate([sort(numbers["bias"]), sort(numbers["own_bias"])])[None]
        more: dict[str, Any] = {"linear_before_reset": 1} if kind == "GRU" else {}
        if numbers["reverse"]:
            more["direction"] = "reverse"
        states = graph.add(kind, operands[0], *map(graph.constant, (*weights, bias)), hidden_size=hidden, **more)
        return graph.add("Squeeze", states, graph.integers([1]))

    return rule


def _enlarge(graph: OnnxGraph, operands: Sequence[str], numbers: dict[str, Any]) -> str:
    scales = graph.constant(np.array(numbers["axes"], np.float32))
    return graph.add("Resize", operands[0], "", scales, mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor")


def _reflect(graph: OnnxGraph, operands: Sequence[str], numbers: dict[str, Any]) -> str:
    lows, highs = zip(*numbers["axes"], strict=True)
    return graph.add("Pad", operands[0], graph.integers([*lows, *highs]), mode="reflect")


IDIOMS: dict[str, Callable[[OnnxGraph, Sequence[str], dict[str, Any]], str]] = {
    "clip": _clip,
    "hard_sigmoid": _hard_sigmoid,
    "hard_swish": _hard_swish,
    "enlarge": _enlarge,
    "reflect": _reflect,
    "lstm": _recurrent("LSTM", "ifgo", "iofg"),
    "gru": _recurrent("GRU", "rzc", "zrc"),
}
