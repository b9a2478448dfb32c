"""`load`: an operator that reads a variable from a file of Paddle's whenever it runs."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from polyreme.dtypes import of_numpy
from polyreme.ir.types import TensorType, f16
from polyreme.loaders.errors import LoaderError
from polyreme.loaders.pdiparams import read_one
from polyreme.static.kinds import NAMED_KINDS, Arrays, Host
from polyreme.static.operator import Operator, OperatorError

__all__ = ["LoadFile"]


class LoadFile(Host):
    """Reads the only tensor of the file `file_path`, as float16 with `load_as_fp16`. The file, or the variable, says the shape in front."""

    def attributes(self, op: Operator) -> Collection[str]:
        return "file_path", "load_as_fp16", "seek", "shape"

    def callee(self, op: Operator) -> str:
        return op.type

    def infer(self, op: Operator) -> dict[str, list[TensorType]]:
        if op.inputs or len(op.outputs.get("Out", ())) != 1 or not isinstance(op.attrs.get("file_path"), str):
            raise OperatorError("expected no inputs, one variable in 'Out' and a 'file_path' of 'load'", op.location, "E0606")
        if op.attrs.get("shape") or op.attrs.get("seek", -1) != -1:
            raise OperatorError("expected 'load' to read a whole file but got a 'shape' or a place to 'seek'", op.location, "E0703")
        variable = op.block.var_recursive(op.outputs["Out"][0])
        try:
            array = self._array(op)
        except FileNotFoundError:
            if not variable.has_shape:
                raise OperatorError(
                    f"expected a file or a shape of '{variable.name}' but there is no file '{op.attrs['file_path']}'; write the file "
                    f"first, or declare the variable with its shape",
                    op.location,
                    "E0606",
                ) from None
            return {"Out": [variable.type]}
        except LoaderError as error:
            raise OperatorError(str(error), op.location, "E0703") from None
        return {"Out": [TensorType(array.shape, of_numpy(array.dtype).scalar)]}

    def run(self, op: Operator, inputs: Arrays) -> Arrays:
        return {"Out": [self._array(op)]}

    @staticmethod
    def _array(op: Operator) -> np.ndarray:
        array, _ = read_one(op.attrs["file_path"], op.outputs["Out"][0])
        return array.astype(f16.np) if op.attrs.get("load_as_fp16") else array


NAMED_KINDS["load"] = LoadFile()
