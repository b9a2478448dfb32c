"""Convolutions of other kinds than ResNet's, with bias and relu, by Polyreme and its peers on the same operands, interleaved.

    python -m benchmarks.convolution_kinds --threads 1 --torch ../torch/bin/python --peers ../peers/bin/python --markdown kinds.md

Depthwise ones of MobileNetV3 and ConvNeXt and with very large windows, grouped ones (ResNeXt, ShuffleNet), signals, volumes, windows with
gaps, transposed ones of a U-Net and of a generator, and the first layers of networks. All else is as in `benchmarks/convolutions.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from benchmarks import convolutions
from benchmarks.beside import run
from benchmarks.convolutions import Case


def cases() -> Iterator[Case]:
    """Family by family."""
    yield from _depthwise()
    yield from _grouped()
    yield from _signals_and_volumes()
    yield from _gaps()
    yield from _transposed()
    yield from _first_layers()


def _image(
    size: int,
    channels: int,
    outputs: int,
    taps: int,
    stride: int = 1,
    groups: int = 1,
    dilation: int = 1,
    pad: int | None = None,
    transposed: bool = False,
) -> Case:
    return Case(1, (size, size), channels, outputs, (taps, taps), stride, "relu", dilation, groups, pad, transposed)


def _depthwise() -> Iterator[Case]:
    for size, channels, taps, stride in (
        *(
            (112, 16, 3, 1),
            (112, 64, 3, 2),
            (56, 72, 3, 1),
            (56, 72, 5, 2),
            (28, 120, 5, 1),
            (28, 240, 3, 2),
            (14, 184, 3, 1),
            (14, 672, 3, 1),
            (14, 672, 5, 2),
            (7, 960, 5, 1),
        ),
        *((56, 96, 7, 1), (28, 192, 7, 1), (14, 384, 7, 1), (7, 768, 7, 1), (56, 128, 31, 1), (14, 512, 27, 1)),
    ):
        yield _image(size, channels, channels, taps, stride, groups=channels)


def _grouped() -> Iterator[Case]:
    for size, channels, stride in ((56, 128, 1), (56, 256, 2), (28, 256, 1), (14, 512, 1), (7, 1024, 1)):
        yield _image(size, channels, channels, 3, stride, groups=32)
    yield _image(28, 240, 60, 1, groups=3)
    yield _image(28, 60, 240, 1, groups=3)


def _signals_and_volumes() -> Iterator[Case]:
    for length, channels, taps, dilation in ((8000, 64, 2, 1), (8000, 64, 2, 64), (1237, 128, 9, 1), (4001, 32, 9, 1)):
        yield Case(1, (length,), channels, channels, (taps,), dilation=dilation)
    yield Case(1, (8, 56, 56), 64, 64, (3, 3, 3))
    yield Case(1, (4, 28, 28), 128, 128, (3, 3, 3))
    yield Case(1, (8, 28, 28), 64, 128, (3, 3, 3), 2)
    yield Case(1, (16, 112, 112), 3, 64, (3, 7, 7), 2)


def _gaps() -> Iterator[Case]:
    yield _image(28, 256, 256, 3, dilation=2)
    yield _image(28, 512, 512, 3, dilation=4)
    yield _image(33, 512, 256, 3, dilation=12)
    yield _image(65, 64, 64, 3, dilation=2)


def _transposed() -> Iterator[Case]:
    transposed = partial(_image, stride=2, transposed=True)
    for size, channels in ((56, 128), (28, 256), (14, 512)):
        yield transposed(size, channels, channels // 2, 2, pad=0)
    for size, channels, outputs in ((4, 512, 256), (8, 256, 128), (16, 128, 64), (32, 64, 3)):
        yield transposed(size, channels, outputs, 4, pad=1)


def _first_layers() -> Iterator[Case]:
    yield _image(224, 3, 32, 3, 2)
    yield _image(224, 3, 64, 3)
    yield _image(224, 3, 96, 4, 4, pad=0)
    yield _image(224, 3, 768, 16, 16, pad=0)
    yield _image(224, 3, 64, 11, 4, pad=2)


SUITE = replace(
    convolutions.SUITE, module="benchmarks.convolution_kinds", cases=cases, about="Convolutions of many kinds by Polyreme and its peers"
)

if __name__ == "__main__":
    run(SUITE)
