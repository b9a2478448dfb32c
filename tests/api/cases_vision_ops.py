"""`paddle.vision.ops`: regions of images, deformable convolutions, boxes by anchors. `paddle.fft` and `paddle.signal`."""

from tests.api.table import FLOATS, array, cases, check, normal, uniform

V, FFT, SIGNAL = "paddle.vision.ops.", "paddle.fft.", "paddle.signal."

# Around an image of 9 x 11, over its edges, beside it, of one place.
BOXES = [[0, 0, 6, 7], [1.3, 2.1, 8.7, 5.2], [-3, -4, 4, 4], [5, 5, 20, 30], [3, 3, 3, 3], [-30, -30, -20, -20]]


def counts(*each):
    return array(each, "int32")


@cases(V + "roi_align")
def _(c):
    for dtype in FLOATS:
        boxes = array(BOXES, dtype).fixed()
        c(normal(2, 3, 9, 11, dtype=dtype), boxes, counts(2, 4), (3, 2), 0.5, aligned=False)
        c(normal(2, 3, 9, 11, dtype=dtype), boxes, counts(0, 6), 2, sampling_ratio=2, aligned=False)
        # Of boxes that are thinner than a pixel Paddle's gradient is another one.
        c(normal(2, 3, 9, 11, dtype=dtype), array(BOXES[:4], dtype).fixed(), counts(3, 1), 2)
        c(normal(2, 3, 9, 11, dtype=dtype), array(BOXES[:4], dtype).fixed(), counts(3, 1), 3, sampling_ratio=1)
    c(normal(1, 2, 1, 1), array(BOXES[:4]).fixed(), counts(4), 2)
    c(normal(2, 2, 5, 5), normal(0, 4).fixed(), counts(0, 0), 2)
    c(normal(1, 2, 5, 5), array(BOXES[:1]).fixed(), None, 2, _raises=True)
    c(normal(1, 2, 5, 5), array(BOXES[:1]).fixed(), counts(1), 2.5, _raises=True)


@cases(V + "roi_pool", V + "psroi_pool")
def _(c):
    for dtype in FLOATS:
        boxes = array(BOXES, dtype).fixed()
        c(normal(2, 12, 9, 11, dtype=dtype), boxes, counts(2, 4), (3, 2), 0.5)
        c(normal(2, 8, 9, 11, dtype=dtype), boxes, counts(0, 6), 2)
        c(normal(1, 2, 9, 11, dtype=dtype), boxes, counts(6), 1, 0.1)
    c(normal(2, 8, 5, 5), normal(0, 4).fixed(), counts(0, 0), 2)
    c(normal(1, 8, 5, 5), array(BOXES[:1]).fixed(), counts(1), 2.5, _raises=True)


@cases(V + "deform_conv2d")
def _(c):
    for dtype in FLOATS:

        def of(*shape, scale=1.0, dtype=dtype):
            return normal(*shape, dtype=dtype, scale=scale)

        mask = uniform(2, 6, 5, 5, dtype=dtype)
        c(of(2, 4, 7, 6), of(2, 12, 5, 5, scale=2.0), of(6, 4, 3, 2), of(6), mask=mask)
        c(of(2, 4, 7, 6), of(2, 12, 5, 5), of(6, 4, 3, 2))
        c(of(2, 4, 7, 6), of(2, 24, 3, 9), of(6, 2, 3, 2), None, [2, 1], [1, 2], [2, 1], 2, 2, uniform(2, 12, 3, 9, dtype=dtype))
    c(normal(1, 1, 3, 3), normal(1, 2, 3, 3), normal(2, 1, 1, 1))
    c(normal(1, 2, 2, 3), normal(1, 18, 2, 3), normal(3, 2, 3, 3), padding=1)
    c(normal(1, 2, 4, 4), normal(1, 8, 4, 4), normal(3, 2, 2, 2), _raises=True)


@cases(V + "DeformConv2D")
def _(c):
    c.layer(4, 6, 3, padding=1, groups=2)(normal(1, 4, 5, 5), normal(1, 18, 5, 5))
    c.layer(4, 6, [1, 2], bias_attr=False)(normal(1, 4, 5, 5), normal(1, 4, 5, 4), uniform(1, 2, 5, 4))


@cases(V + "prior_box")
def _(c):
    grid, image = normal(1, 2, 3, 5), normal(1, 3, 24, 40)
    c(grid, image, [4.0, 9.0])
    c(grid, image, 4.0, aspect_ratios=[2.0, 3.0], flip=True, clip=True, max_sizes=[7.0])
    c(grid, image, [4.0, 9.0], [7.0, 12.0], [2.0], steps=[3.0, 5.0], offset=0.25, min_max_aspect_ratios_order=True)
    c(grid, image, [4.0], steps=[1.0], _raises=True)


@cases(V + "yolo_box")
def _(c):
    sizes, anchors = array([[60, 90], [33, 32]], "int32"), [10, 13, 16, 30, 33, 23]
    for dtype in FLOATS:
        c(normal(2, 21, 3, 4, dtype=dtype), sizes, anchors, 2, 0.3, 16)
        c(normal(2, 24, 3, 4, dtype=dtype), sizes, anchors, 2, 0.0, 32, False, scale_x_y=1.2, iou_aware=True, iou_aware_factor=0.3)
    c(normal(2, 20, 3, 4), sizes, anchors, 2, 0.3, 16, _raises=True)


@cases(V + "yolo_loss")
def _(c):
    # No two of one place and anchor, whose gradients replace each other in Paddle.
    true = [
        [[0.3, 0.4, 0.2, 0.3], [0.7, 0.1, 0.05, 0.1], [0, 0, 0, 0]], [[0.31, 0.42, 0.1, 0.3], [0.3, 0.85, 0.12, 0.2], [0.9, 0.9, 0.5, 0.6]],
    ]  # fmt: skip
    labels, anchors = array([[0, 1, 0], [2, 1, 0]], "int32"), [10, 13, 16, 30, 33, 23, 30, 61]
    for dtype in FLOATS:
        boxes = array(true, dtype).fixed()
        c(normal(2, 16, 5, 5, dtype=dtype), boxes, labels, anchors, [1, 2], 3, 0.5, 16)
        score = uniform(2, 3, low=0.1, dtype=dtype).fixed()
        c(normal(2, 16, 4, 4, dtype=dtype), boxes, labels, anchors, [0, 3], 3, 0.1, 8, score, False, scale_x_y=1.2)


@cases(V + "box_coder")
def _(c):
    priors, targets = array([[0, 0, 4, 8], [2, 1, 5, 3], [1, 1, 9, 2]]), array([[1, 1, 6, 4], [0, 2, 3, 9]])
    for normalized in (True, False):
        c(priors, [0.1, 0.1, 0.2, 0.2], targets, "encode_center_size", normalized)
        c(priors, uniform(3, 4, low=0.1), targets, "encode_center_size", normalized)
        c(priors, [0.1, 0.1, 0.2, 0.2], normal(2, 3, 4), "decode_center_size", normalized)
        c(priors, uniform(3, 4, low=0.1), normal(3, 2, 4), "decode_center_size", normalized, 1)
    c(priors, None, targets, _raises=True)


@check(V + "RoIAlign", V + "RoIPool", V + "PSRoIPool")
def layers_of_regions_say_and_do_what_the_functions_do(paddle, np, rng):
    made = {}
    image = paddle.to_tensor(rng.standard_normal((2, 8, 9, 11)).astype("float32"))
    for name, arguments in (("RoIAlign", (2, 0.5)), ("RoIPool", ((3, 2), 0.5)), ("PSRoIPool", (2, 0.5))):
        layer = getattr(paddle.vision.ops, name)(*arguments)
        boxes = paddle.to_tensor(np.float32(BOXES[:4]))
        made[name] = repr(layer), layer(image, boxes, paddle.to_tensor(np.int32([1, 3])))
    return made


@cases(FFT + "rfft", FFT + "ihfft")
def _(c):
    for dtype in FLOATS:
        for norm in ("backward", "forward", "ortho"):
            c(normal(2, 7, dtype=dtype), norm=norm)
        c(normal(2, 3, 66, dtype=dtype), 70)
        c(normal(2, 67, dtype=dtype), 5, 0)
    c(normal(3, 131).strided())
    c(normal(3, 4), 0, _raises=True)
    c(normal(3, 4), None, 2, _raises=True)
    c(normal(3, 4), norm="other", _raises=True)


@cases(FFT + "fft", FFT + "ifft", FFT + "irfft", FFT + "hfft")
def _(c):
    for dtype in ("float32", "float64", "complex64", "complex128"):
        c(normal(2, 7, dtype=dtype))
        c(normal(2, 66, dtype=dtype), 70, norm="ortho")
        c(normal(5, 3, dtype=dtype), 4, 0, "forward")
    c(normal(3, 4), 0, _raises=True)


@cases(FFT + "fftn", FFT + "ifftn", FFT + "irfftn", FFT + "hfftn", FFT + "fft2", FFT + "ifft2", FFT + "irfft2", FFT + "hfft2")
def _(c):
    for dtype in ("float32", "complex64"):
        c(normal(2, 4, 5, dtype=dtype))
        c(normal(2, 4, 5, dtype=dtype), [3, 6], [0, 2], "ortho")
    c(normal(2, 4), [3, 0], _raises=True)


@cases(FFT + "rfftn", FFT + "ihfftn", FFT + "rfft2", FFT + "ihfft2")
def _(c):
    c(normal(2, 4, 5))
    c(normal(2, 4, 5), [3, 6], [2, 0], "ortho")
    c(normal(2, 4, 5), None, [1, 2], "forward")


@cases(FFT + "fftfreq", FFT + "rfftfreq")
def _(c):
    for n in (1, 4, 5):
        c(n, 0.3)
    c(3, dtype="float64")
    c(0, _raises=True)


@cases(FFT + "fftshift", FFT + "ifftshift")
def _(c):
    c(normal(3, 4, 5))
    c(normal(3, 4, 5), (0, 2))


@cases(SIGNAL + "frame")
def _(c):
    for axis in (-1, 0):
        c(normal(11), 4, 2, axis)
        c(normal(2, 11) if axis else normal(11, 2), 3, 4, axis)
    c(normal(4), 5, 1, _raises=True)


@cases(SIGNAL + "overlap_add")
def _(c):
    for axis in (-1, 0):
        c(normal(4, 4), 2, axis)
        c(normal(3, 4, 5), 1, axis)
    c(normal(4, 4), 0, _raises=True)


@cases(SIGNAL + "stft")
def _(c):
    for dtype in FLOATS:
        c(normal(2, 40, dtype=dtype), 16)
        c(normal(40, dtype=dtype), 15, 5, 12, uniform(12, dtype=dtype), False, normalized=True)
        c(normal(40, dtype=dtype), 16, 3, pad_mode="constant", onesided=False)
    c(normal(8), 16, _raises=True)


@cases(SIGNAL + "istft")
def _(c):
    for dtype in ("complex64", "complex128"):
        c(normal(2, 9, 6, dtype=dtype), 16)
        c(normal(9, 6, dtype=dtype), 16, 5, normalized=True, length=20)
        c(normal(16, 6, dtype=dtype), 16, 4, onesided=False, return_complex=True)
    c(normal(9, 6), 16)
    c(normal(2, 8, 6), 16, _raises=True)
