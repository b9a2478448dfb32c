"""`paddle.dataset.flowers`: the Oxford 102 Category Flower Dataset (Nilsback and Zisserman, 2008).

Its three files are read from `~/.cache/paddle/dataset/flowers` and have to have the checksums that Paddle knows.
"""

from __future__ import annotations

import hashlib
import io
import tarfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from polyreme.dataset.matlab import read_vectors
from polyreme.ir.diagnostics import PolyremeError, caller_location
from polyreme.names import listed

__all__ = ["test", "train", "valid"]

IMAGES, LABELS, PARTS = "102flowers.tgz", "imagelabels.mat", "setid.mat"
CHECKSUMS = {
    IMAGES: "52808999861908f626f3c1f4e79d11fa",
    LABELS: "e0620be6f572b9609742df49c70aed4d",
    PARTS: "a5357ecc9cb78c4bef273ce3793fc85c",
}
MEAN = (103.94, 116.78, 123.68)
SHORT_SIDE, SIDE = 256, 224

Sample = tuple[bytes, int]
Reader = Callable[[], Iterator[Any]]


class DatasetError(PolyremeError, RuntimeError):
    """Files of a dataset that are missing or not those they should be."""

    code = "E0705"


def default_mapper(is_train: bool, sample: Sample) -> tuple[np.ndarray[Any, Any], int]:
    """A file's bytes as float32 [3 * 224 * 224]: blue, green and red less their means, the short side 256, cut to 224x224.

    For training the cut is anywhere and every second image is mirrored, by `numpy.random`; otherwise it is in the middle. Needs Pillow.
    """
    from PIL import Image

    from polyreme.vision.transforms import resize

    image = resize(np.asarray(Image.open(io.BytesIO(sample[0])).convert("RGB"))[..., ::-1], SHORT_SIDE, "bicubic")
    height, width = image.shape[:2]
    if is_train:
        top, left = np.random.randint(0, height - SIDE + 1), np.random.randint(0, width - SIDE + 1)
    else:
        top, left = (height - SIDE) // 2, (width - SIDE) // 2
    cut = image[top : top + SIDE, left : left + SIDE]
    if is_train and np.random.randint(2) == 0:
        cut = cut[:, ::-1]
    return (cut.astype(np.float32) - np.array(MEAN, np.float32)).transpose(2, 0, 1).flatten(), sample[1]


train_mapper = partial(default_mapper, True)
test_mapper = partial(default_mapper, False)


def train(mapper: Callable[[Sample], Any] = train_mapper, buffered_size: int = 1024, use_xmap: bool = True, cycle: bool = False) -> Reader:
    """A reader of the 6,149 images that are trained with (the published test part, the largest): what `mapper` makes of (a file's bytes,
    the label from 0 to 101).

    `buffered_size` and `use_xmap` say in Paddle how threads share the work; here the reader does it. `cycle` starts again at the end.
    """
    return _reader("tstid", mapper, cycle)


def test(mapper: Callable[[Sample], Any] = test_mapper, buffered_size: int = 1024, use_xmap: bool = True, cycle: bool = False) -> Reader:
    """As `train`, of the 1,020 images to test with (the published training part)."""
    return _reader("trnid", mapper, cycle)


def valid(mapper: Callable[[Sample], Any] = test_mapper, buffered_size: int = 1024, use_xmap: bool = True) -> Reader:
    """As `train`, of the 1,020 images to validate with."""
    return _reader("valid", mapper, False)


def _reader(part: str, mapper: Callable[[Sample], Any], cycle: bool) -> Reader:
    images, labels, parts = (_file(name) for name in (IMAGES, LABELS, PARTS))

    def samples() -> Iterator[Any]:
        label_of = read_vectors(labels.read_bytes())["labels"]
        wanted = {
            f"jpg/image_{number:05}.jpg": int(label_of[number - 1]) - 1 for number in map(int, read_vectors(parts.read_bytes())[part])
        }
        while True:
            with tarfile.open(images) as archive:
                for member in archive:
                    file = archive.extractfile(member) if member.name in wanted else None
                    if file is not None:
                        yield mapper((file.read(), wanted[member.name]))
            if not cycle or not wanted:
                return

    return samples


def _file(name: str) -> Path:
    """Where the file is, its checksum compared."""
    folder = Path.home() / ".cache" / "paddle" / "dataset" / "flowers"
    file = folder / name
    if not file.is_file():
        raise DatasetError(
            f"expected the dataset's file {file} but it is not there: nothing is downloaded, put {', '.join(CHECKSUMS)} there",
            caller_location(),
        )
    with file.open("rb") as stream:
        found = hashlib.file_digest(stream, "md5").hexdigest()
    if found != CHECKSUMS[name]:
        raise DatasetError(
            f"expected {file} with the MD5 checksum {CHECKSUMS[name]} but it has {found}: it is damaged or another file", caller_location()
        )
    return file


__dir__ = listed(__name__)
