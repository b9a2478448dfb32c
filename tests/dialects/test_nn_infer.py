"""What the inference of nn ops refuses, and in which words."""

import pytest

from polyreme.dialects import nn
from polyreme.ir.builtin import Func
from polyreme.ir.diagnostics import InferError
from polyreme.ir.dims import symbol
from polyreme.ir.types import TensorType, f32, f64, i1, i8, i64

N = symbol("N")


def t(*shape, dtype=f32):
    return TensorType(shape, dtype)


REFUSED = [
    (nn.Add, [t(3, 4), t(5)], {}, r"'nn.add' expected shapes that broadcast but got \[3, 4\] and \[5\]: 4 and 5 differ"),
    (nn.Add, [t(3), t(3, dtype=f64)], {}, "'nn.add' expected equal element types for 'add' but got f32 and f64"),
    (nn.Exp, [t(3, dtype=i64)], {}, "'nn.exp' expected an element type of kind 'f' for 'exp' but got i64"),
    (nn.Where, [t(3), t(3), t(3)], {}, "'nn.where' expected an i1 condition"),
    (nn.MatMul, [t(8, 128), t(64, 8)], {}, "'nn.matmul' expected inner dimensions to agree but got 128 and 64"),
    (nn.MatMul, [t(), t(3)], {}, "expected operands of rank 1 or more"),
    (nn.MatMul, [t(2, 3, 4), t(3, 4, 5)], {}, "2 and 3 differ"),
    (nn.Linear, [t(2, 5), t(4, 3)], {}, "'nn.linear' expected 4 features, the weight's first size, but got 5"),
    (nn.Linear, [t(2, 4), t(4, 3), t(4)], {}, r"expected a bias of shape \[3\] but got \[4\]"),
    (nn.Conv, [t(N, 3, 8, 8), t(4, 2, 3, 3)], {}, "expected 2 channels for the weight"),
    (nn.Conv, [t(N, 3, 8, 8), t(4, 3, 3)], {}, "expected a weight of rank 4"),
    (nn.Conv, [t(N, 3, 2, 8), t(4, 3, 3, 3)], {}, "expected at least 3 elements for the kernel but got 2 padded by 0 and 0"),
    (nn.Conv, [t(N, 4, 8, 8), t(3, 2, 3, 3)], {"groups": 2}, "expected a number of output channels that 2 groups divide but got 3"),
    (nn.Conv, [t(N, 3, 8, 8), t(4, 3, 3, 3)], {"strides": (2,)}, "expected 2 values in 'strides' but got 1"),
    (nn.Conv, [t(N, 3, 8, 8), t(4, 3, 3, 3)], {"padding": (1, 1)}, "expected 4 values in 'padding' but got 2"),
    (
        nn.ConvTranspose,
        [t(N, 3, 4), t(3, 2, 3)],
        {"strides": (2,), "sizes": (12,)},
        "expected sizes from which a convolution makes 4 places but 12 makes 5",
    ),
    (nn.MaxPool, [t(N, 3, 8)], {"kernel": (2, 2)}, "expected 1 values in 'kernel' but got 2"),
    (nn.MaxPool, [t(N, 3, 2)], {"kernel": (3,)}, "expected at least 3 elements for the kernel but got 2"),
    (nn.AvgPool, [t(N, 3, 8, dtype=i64)], {"kernel": (2,)}, "expected floats but got i64"),
    (nn.Softmax, [t(8, 128)], {"axis": 2}, r"'nn.softmax' expected axis in \[-2, 2\) but got 2"),
    (nn.QuantizeLinear, [t(3, dtype=i64), t()], {}, "'nn.quantize_linear' expected floats but got i64"),
    (nn.QuantizeLinear, [t(3), t(dtype=f64)], {}, "expected a scale of type f32 but got f64"),
    (nn.QuantizeLinear, [t(3), t()], {"bit_length": 9}, "expected 2 to 8 bits but got 9"),
    (nn.QuantizeLinear, [t(N, 4), t(3)], {"axis": 1}, r"expected a scale of shape \[4\], as axis 1 has it, but got \[3\]"),
    (nn.QuantizeLinear, [t(4), t(4, 1)], {}, r"expected a scale that is one number, or one per place along an axis, but got \[4, 1\]"),
    (nn.QuantizeLinear, [t(N, 4), t(4)], {"axis": 2}, r"expected axis in \[-2, 2\) but got 2"),
    (nn.QuantizeLinear, [t(4), t(), t()], {}, "expected a zero point of type i8 but got f32"),
    (nn.DequantizeLinear, [t(4, dtype=i64), t()], {}, "expected counts of type i8 but got i64"),
    (nn.DequantizeLinear, [t(4, dtype=i8), t(dtype=i8)], {}, "expected a scale of floats but got i8"),
    (nn.DequantizeLinear, [t(4, dtype=i8), t(4), t(dtype=i8)], {}, r"expected a zero point of the scale's shape \[4\] but got \[\]"),
    (nn.FakeQuantize, [t(4), t()], {"ties": "up"}, "expected 'ties' to be one of even, away but got 'up'"),
    (nn.CrossEntropy, [t(N, 10), t(N, dtype=i64)], {}, r"expected a label of shape \[N, 1\] but got \[N\]"),
    (nn.CrossEntropy, [t(N, 10), t(N, 1)], {}, "expected integer labels but got f32"),
    (nn.Sum, [t(3, dtype=i1)], {}, "expected elements of kind"),
    (nn.Sum, [t(3, 4)], {"axis": (1, -1)}, "expected each axis once"),
    (nn.Max, [t(3, 0)], {"axis": (1,)}, "expected at least one element along the axes but got 0"),
    (nn.Dropout, [t(3), t(3)], {"p": 1.5}, r"expected p in \[0, 1\] but got 1.5"),
    (nn.Dropout, [t(3), t(2, 3)], {"p": 0.5}, "expected draws that broadcast"),
    (nn.Dropout, [t(3), t(3)], {"p": 0.5, "mode": "upscale"}, "expected 'mode' to be one of upscale_in_train, downscale_in_infer"),
    (nn.BroadcastTo, [t(3)], {"shape": (3, 4)}, "3 and 4 differ"),
    (nn.Reshape, [t(N, 4)], {"shape": (N, 3)}, r"expected as many elements as \[N, 4\] has"),
    (nn.Concat, [[t(2, 3), t(3, 3)]], {"axis": 1}, "expected shapes that agree but for axis 1"),
]


@pytest.mark.parametrize(("cls", "types", "attributes", "message"), REFUSED, ids=[f"{r[0].name}: {r[3]}" for r in REFUSED])
def test_inference_refuses(cls, types, attributes, message):
    flat = [x for item in types for x in (item if isinstance(item, list) else [item])]
    args = iter(Func.empty("main", flat).args)
    operands = [[next(args) for _ in item] if isinstance(item, list) else next(args) for item in types]
    with pytest.raises(InferError, match=message):
        cls(*operands, **attributes)
