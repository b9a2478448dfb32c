"""Images in another size, sampled, shuffled; transposed convolutions; diagonals."""

from tests.api.table import FLOATS, cases, normal, uniform

F = "paddle.nn.functional."


@cases(F + "interpolate", F + "upsample")
def _(c):
    for dtype in FLOATS:
        c(normal(2, 3, 4, 5, dtype=dtype), [7, 3])
        c(normal(1, 2, 4, 5, dtype=dtype), scale_factor=2)
        for corners, align in ((False, 0), (False, 1), (True, 0), (True, 1)):
            # In float64 Paddle's gradient rounds places otherwise than its result.
            c(normal(2, 2, 4, 5, dtype=dtype), [7, 3], mode="bilinear", align_corners=corners, align_mode=align, _rtol=1e-6)
            c(normal(2, 2, 5, dtype=dtype), [8], mode="linear", align_corners=corners, align_mode=align)
            c(normal(1, 2, 3, 4, 2, dtype=dtype), [5, 2, 3], mode="trilinear", align_corners=corners, align_mode=align)
        for corners in (False, True):  # here, too, Paddle's gradient rounds places otherwise
            c(normal(2, 2, 4, 5, dtype=dtype), [7, 3], mode="bicubic", align_corners=corners, _rtol=1e-6, _atol=1e-7)
        c(normal(2, 3, 6, 6, dtype=dtype), [3, 2], mode="area", _rtol=1e-6)
    c(normal(1, 2, 4, 5), scale_factor=[1.5, 0.6], mode="bilinear")
    c(normal(1, 2, 4, 5), scale_factor=[1.5, 2.7], mode="bilinear", recompute_scale_factor=True)
    c(normal(1, 2, 7, 5), scale_factor=0.7)
    c(normal(1, 2, 7, 5), scale_factor=1.3, mode="bicubic")
    c(normal(1, 4, 5, 2), [6, 7], mode="bilinear", data_format="NHWC")
    c(normal(1, 3, 4, 5, 2), [6, 7, 3], data_format="NDHWC")
    c(normal(1, 5, 2), [6], mode="linear", data_format="NWC")
    c(normal(1, 2, 3, 4, 5), scale_factor=2)
    c(normal(2, 8), [4], mode="linear", _raises=True)
    for corners, align in ((False, 0), (False, 1), (True, 0)):  # a single element: of an image the first, of others one in the middle
        c(normal(1, 2, 4, 5), [1, 3], mode="bilinear", align_corners=corners, align_mode=align)
        # Paddle's gradient is that of the first
        c(normal(1, 2, 5), [1], mode="linear", align_corners=corners, align_mode=align, _no_grad=True)
        c(normal(1, 1, 3, 4, 2), [1, 1, 1], mode="trilinear", align_corners=corners, align_mode=align)
        c(normal(1, 2, 4, 5), [3, 1], mode="bicubic", align_corners=corners)
    c(normal(1, 2, 4, 5), scale_factor=0.3, mode="bicubic")
    c(normal(1, 2, 4, 5), [1, 1])
    c(normal(1, 2, 9), [3], mode="area")
    c(normal(1, 2, 4, 5), [1, 1], mode="bilinear", align_corners=True)
    c(normal(1, 1, 4, 5).strided(), [6, 6], mode="bilinear")
    c(normal(1, 2, 4, 5), [4, 5])
    c(normal(1, 2, 4, 5), _raises=True)
    c(normal(1, 2, 4, 5), [3], _raises=True)
    c(normal(1, 2, 4, 5), [3, 3], mode="cubic", _raises=True)
    c(normal(1, 2, 4, 5), [3, 3], mode="linear", _raises=True)
    c(normal(1, 2, 4, 5), [3, 3], align_corners=True, _raises=True)
    c(normal(1, 2, 4, 5), [3, 3], align_mode=2, _raises=True)
    c(normal(1, 2, 4, 5), scale_factor=-1, _raises=True)
    c(normal(1, 2, 4, 5), scale_factor=2, mode="area", _raises=True)
    c(normal(1, 2, 4, 5), [3, 3], data_format="NCW", _raises=True)


@cases(F + "interpolate")
def _(c):
    for mode in ("bilinear", "bicubic"):
        c(normal(1, 2, 9, 8), [4, 3], mode=mode, antialias=True)
        c(normal(1, 2, 5, 4), [7, 9], mode=mode, antialias=True)
        c(normal(1, 2, 5, 4), [1, 3], mode=mode, antialias=True)
        c(normal(1, 2, 5, 4), scale_factor=0.3, mode=mode, antialias=True)
        c(normal(1, 2, 5, 4), [1, 1], mode=mode, align_corners=True, antialias=True)


@cases(F + "upsample")
def _(c):
    c(normal(1, 2, 4, 5), scale_factor=2)
    c(normal(1, 2, 4, 5), [6, 3], mode="bilinear", align_corners=True)


@cases("paddle.nn.Upsample")
def _(c):
    c.layer([6, 7])(normal(1, 2, 3, 4))
    c.layer(scale_factor=2, mode="bilinear", align_corners=True, name="up")(normal(1, 2, 3, 4))
    c.layer(size=[5], mode="linear")(normal(1, 2, 3))
    c.layer([5, 1])(normal(1, 3, 3, 5, dtype="float64").strided())
    c.layer([7, 5], mode="bicubic")(normal(1, 1, 3, 4, dtype="float64"), _rtol=1e-6, _atol=1e-7)  # as above


@cases("paddle.nn.UpsamplingNearest2D")
def _(c):
    c.layer(6)(normal(1, 2, 3, 4))
    c.layer(scale_factor=3, data_format="NHWC")(normal(1, 2, 3, 4, dtype="float64"))


@cases("paddle.nn.UpsamplingBilinear2D")
def _(c):
    c.layer([6, 5])(normal(1, 2, 3, 4))
    c.layer(scale_factor=3, name="n")(normal(1, 2, 3, 4, dtype="float64"))


@cases(F + "grid_sample")
def _(c):
    for mode in ("bilinear", "nearest"):
        for padding in ("zeros", "border", "reflection"):
            for corners in (True, False):
                c(normal(2, 3, 4, 5), uniform(2, 3, 2, 2, low=-1.4, high=1.4), mode, padding, corners)
            c(normal(1, 2, 3, 4, 5, dtype="float64"), uniform(1, 2, 3, 2, 3, low=-1.4, high=1.4, dtype="float64"), mode, padding)
    c(normal(1, 1, 1, 1), uniform(1, 2, 2, 2, low=-1))
    c(normal(2, 1, 4, 5).strided(), uniform(2, 3, 2, 2, low=-1))
    c(normal(1, 1, 2, 2), uniform(1, 2, 2, 2), "cubic", _raises=True)
    c(normal(1, 1, 2, 2), uniform(1, 2, 2, 2), "nearest", "wrap", _raises=True)
    c(normal(1, 1, 2, 2), uniform(1, 2, 2, 3), _raises=True)


@cases(F + "affine_grid")
def _(c):
    for dtype in FLOATS:
        for corners in (True, False):
            c(normal(2, 2, 3, dtype=dtype), [2, 3, 4, 5], corners)
            c(normal(1, 3, 4, dtype=dtype), [1, 2, 2, 3, 4], corners)


@cases(F + "pixel_shuffle")
def _(c):
    for dtype in FLOATS:
        c(normal(2, 9, 2, 4, dtype=dtype), 3)
        c(normal(2, 2, 4, 8, dtype=dtype), 2, "NHWC")
    c(normal(1, 4, 1, 1), 1)
    c(normal(0, 4, 2, 3), 2)
    c(normal(1, 4, 2, 3).strided(), 2)
    c(normal(1, 5, 2, 2), 2, _raises=True)
    c(normal(1, 4, 2, 2), 2.0, _raises=True)
    c(normal(1, 4, 2, 2), 2, "NCL", _raises=True)
    c(normal(4, 2, 2), 2, _raises=True)


@cases(F + "pixel_unshuffle")
def _(c):
    c(normal(2, 3, 4, 6), 2)
    c(normal(2, 6, 3, 2, dtype="float64"), 3, "NHWC")
    c(normal(2, 6, 3, 2, dtype="float64"), 1, "NHWC")
    c(normal(2, 6, 9, 2, dtype="float64"), 3, "NHWC")


@cases(F + "channel_shuffle")
def _(c):
    c(normal(2, 6, 2, 3), 3)
    c(normal(2, 2, 3, 6, dtype="float64"), 2, "NHWC")
    c(normal(2, 5, 2, 3), 3, _raises=True)


@cases("paddle.nn.PixelShuffle")
def _(c):
    c.layer(2)(normal(1, 8, 2, 3))
    c.layer(3, "NHWC", "shuffle")(normal(1, 2, 3, 9, dtype="float64"))


@cases("paddle.nn.PixelUnshuffle")
def _(c):
    c.layer(2)(normal(1, 2, 2, 4))


@cases("paddle.nn.ChannelShuffle")
def _(c):
    c.layer(2)(normal(1, 4, 2, 3))


@cases(F + "temporal_shift")
def _(c):
    for dtype in FLOATS:
        c(normal(6, 4, 2, 3, dtype=dtype), 3, 0.25)
        c(normal(6, 2, 3, 5, dtype=dtype), 2, 0.3, data_format="NHWC")
    c(normal(2, 5, 1, 1), 1, 0.4)
    c(normal(4, 8, 2, 2).strided(), 2)
    c(normal(4, 4, 2, 2), 2, data_format="NCL", _raises=True)


@cases(F + "diag_embed")
def _(c):
    for dtype in (*FLOATS, "int64"):
        c(normal(2, 3, dtype=dtype), _forms=False)
        c(normal(2, 3, dtype=dtype), 1, 0, 2)
        c(normal(3, dtype=dtype), -2)
    c(normal(2, 3, 4), 1, 2, 0)
    c(normal(2, 3).strided(), -1, 0, 1)
    c(normal(2, 3), 0, 1, 1, _raises=True)
    c(normal(2, 3), 0, 0, 3, _raises=True)


def _transposed(c, rank, last):
    spatial, kernel = (7, 5, 4)[:rank], (3, 2, 2)[:rank]
    for dtype in FLOATS:
        c(normal(2, 4, *spatial, dtype=dtype), normal(4, 3, *kernel, dtype=dtype), _forms=False)
        c(
            normal(2, 4, *spatial, dtype=dtype),
            normal(4, 3, *kernel, dtype=dtype),
            normal(3, dtype=dtype),
            stride=2,
            padding=1,
            output_padding=1,
        )
        c(normal(1, 4, *spatial, dtype=dtype), normal(4, 2, *kernel, dtype=dtype), groups=2, dilation=2)
    c(normal(2, *spatial, 4), normal(4, 3, *kernel), normal(3), stride=2, data_format=last)
    c(normal(1, 2, *spatial), normal(2, 1, *kernel), stride=2, groups=2)
    c(normal(1, 2, *spatial), normal(2, 3, *kernel), stride=3, output_size=[(n - 1) * 3 + k + 1 for n, k in zip(spatial, kernel)])
    c(normal(1, 2, *spatial), normal(2, 3, *kernel), padding="VALID")
    c(normal(1, 2, *spatial), normal(2, 3, *kernel), padding="SAME")
    c(normal(1, 2, *spatial), normal(3, 3, *kernel), _raises=True)
    c(normal(1, 2, *spatial, 1), normal(2, 3, *kernel), _raises=True)
    c(normal(1, 3, *spatial), normal(3, 2, *kernel), groups=2, _raises=True)
    c(normal(1, 2, *spatial), normal(2, 3, *kernel), stride=2, output_size=[100] * rank, _raises=True)


@cases(F + "conv1d_transpose")
def _(c):
    _transposed(c, 1, "NLC")


@cases(F + "conv2d_transpose")
def _(c):
    _transposed(c, 2, "NHWC")
    c(normal(1, 2, 4, 5), normal(2, 3, 3, 3), stride=[2, 1], padding=[1, 0, 2, 1])
    c(normal(1, 2, 4, 5), normal(2, 3, 3, 3), padding=[[0, 0], [0, 0], [1, 0], [2, 1]])


@cases(F + "conv3d_transpose")
def _(c):
    _transposed(c, 3, "NDHWC")


@cases("paddle.nn.Conv1DTranspose")
def _(c):
    c.layer(4, 3, 3)(normal(2, 4, 5))
    c.layer(4, 6, 2, stride=2, padding=1, output_padding=1, groups=2, bias_attr=False, data_format="NLC")(normal(2, 5, 4))
    c.layer(4, 3, 3, _default="float64")(normal(2, 4, 5, dtype="float64").strided())
    c.layer(3, 1, 1, stride=3)(normal(1, 3, 1))


@cases("paddle.nn.Conv2DTranspose")
def _(c):
    c.layer(4, 3, 3)(normal(2, 4, 5, 3))
    c.layer(4, 6, [3, 2], stride=2, padding=1, output_padding=1, groups=2, dilation=2)(normal(1, 4, 3, 5))
    c.layer(2, 3, 3, stride=2)(normal(1, 2, 3, 3), output_size=[8, 8])
    c.layer(3, 2, 2, _default="float64")(normal(1, 3, 5, 1, dtype="float64").strided())


@cases("paddle.nn.Conv3DTranspose")
def _(c):
    c.layer(2, 3, 2)(normal(1, 2, 3, 4, 2))
    c.layer(2, 4, 3, stride=2, padding=1, output_padding=1, groups=2)(normal(1, 2, 2, 3, 2))
    c.layer(2, 3, 2, _default="float64")(normal(1, 2, 3, 1, 3, dtype="float64").strided())
