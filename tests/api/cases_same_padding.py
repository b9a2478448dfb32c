"""Padding "SAME": of convolutions with dilation, of which Paddle takes no notice then, of even kernels, of strides that do not divide, and
of pools.
"""

from tests.api.table import cases, normal

F, NN = "paddle.nn.functional", "paddle.nn"
SPATIAL = {1: (7,), 2: (5, 6), 3: (3, 4, 5)}
FORMATS = {1: ("NCL", "NLC"), 2: ("NCHW", "NHWC"), 3: ("NCDHW", "NDHWC")}

for _rank, _sizes in SPATIAL.items():
    _kernel, _even = (3,) * _rank, (2,) * _rank

    @cases(f"{F}.conv{_rank}d")
    def _(c):
        c(normal(1, 2, *_sizes), normal(3, 2, *_kernel), padding="SAME", dilation=2)
        c(normal(1, 2, *_sizes), normal(3, 2, *_even), normal(3), 2, "SAME", 3)
        c(normal(1, 2, *_sizes), normal(4, 1, *_kernel), stride=3, padding="same", dilation=2, groups=2)
        c(normal(1, 2, *_sizes), normal(3, 2, *_kernel), padding="VALID")
        c(normal(1, *_sizes, 2), normal(3, 2, *_kernel), padding="SAME", dilation=2, data_format=FORMATS[_rank][1])

    @cases(f"{NN}.Conv{_rank}D")
    def _(c):
        c.layer(2, 3, 3, padding="SAME", dilation=2)(normal(1, 2, *_sizes))

    @cases(f"{F}.conv{_rank}d_transpose")
    def _(c):
        c(normal(1, 2, *_sizes), normal(2, 3, *_kernel), stride=2, padding="SAME", dilation=2)
        c(normal(1, 2, *_sizes), normal(2, 3, *_even), stride=3, padding="SAME")

    @cases(f"{F}.max_pool{_rank}d")
    def _(c):
        c(normal(1, 2, *_sizes), 3, 2, "SAME")
        c(normal(1, 2, *_sizes), 2, 3, "SAME")

    @cases(f"{F}.avg_pool{_rank}d")
    def _(c):
        c(normal(1, 2, *_sizes), 3, 2, "SAME")
        c(normal(1, 2, *_sizes), 2, 1, "SAME", exclusive=False)
