"""Calls at the edge of what a function takes: numbers counted from the end, windows that reach past the padding, sizes below nothing."""

from tests.api.table import array, cases, normal

F = "paddle.nn.functional"


@cases(f"{F}.embedding")
def _(c):
    for index in (-1, -2, -4):
        c(array([0, 3, 2, 3], "int64"), normal(4, 3), padding_idx=index)
        c(array([[0, 3], [2, 3]], "int32"), normal(4, 3, dtype="float64"), padding_idx=index, scale_grad_by_freq=True)
    c(array([0, 3], "int64"), normal(4, 3), padding_idx=4, _raises=True)
