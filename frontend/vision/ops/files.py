"""Images in files: their bytes, and the pixels of JPEG images."""

from __future__ import annotations

import io

import numpy as np

from polyreme.math.common import tensor_arg
from polyreme.tensor import Tensor

__all__ = ["decode_jpeg", "read_file"]

_MODES = {"unchanged": None, "gray": "L", "rgb": "RGB"}


def read_file(filename: str, name: str | None = None) -> Tensor:
    """The bytes of a file, uint8 [bytes]. An OSError where it cannot be read."""
    with open(filename, "rb") as file:
        return Tensor(np.frombuffer(file.read(), np.uint8).copy())


def decode_jpeg(x: Tensor, mode: str = "unchanged", name: str | None = None) -> Tensor:
    """The pixels of a JPEG image, uint8 [channels, height, width], of its bytes, uint8 [bytes]; in grey or in colours if `mode` is "gray"
    or "rgb". Pillow decodes it, which the extra `vision` installs; in eager mode only.
    """
    if mode not in _MODES:
        raise ValueError(f"decode_jpeg expected the mode 'unchanged', 'gray' or 'rgb' but got {mode!r}")
    data = tensor_arg(x, "decode_jpeg").numpy()
    if data.dtype != np.uint8 or data.ndim != 1:
        raise ValueError(f"decode_jpeg expected the bytes of an image, uint8 [bytes], but got {x.dtype.name} {list(x.shape)}")
    # Not at the top, as Pillow may be absent.
    from PIL import Image

    image = Image.open(io.BytesIO(data.tobytes()), formats=["JPEG"])
    wanted = _MODES[mode]
    pixels = np.asarray(image if wanted is None else image.convert(wanted))
    return Tensor(np.ascontiguousarray(pixels[None] if pixels.ndim == 2 else pixels.transpose(2, 0, 1)))
