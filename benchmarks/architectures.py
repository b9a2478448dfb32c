"""Networks as people write them in Paddle: those for images, sound and video. `benchmarks/sequences.py` has those for words, tables and
graphs.

None of them was written with the compiler in mind: windows are shifted by `roll`, boxes decoded from `meshgrid`, norms over channels
spelled out. In a process that has imported Paddle they are Paddle's Layers, in others Polyreme's (`benchmarks/zoo.py` times both).
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING or "paddle" not in sys.modules:
    import polyreme as paddle
else:
    import paddle

nn, F = paddle.nn, paddle.nn.functional
Tensor = paddle.Tensor


class ConvBN(nn.Layer):
    """A convolution that keeps the size (over `stride`), a batch norm, an activation."""

    def __init__(self, inputs: int, outputs: int, kernel: int = 3, stride: int = 1, groups: int = 1, act: str | None = "relu"):
        super().__init__()
        self.conv = nn.Conv2D(inputs, outputs, kernel, stride, padding=(kernel - 1) // 2, groups=groups, bias_attr=False)
        self.bn = nn.BatchNorm2D(outputs)
        self.act = getattr(F, act) if act else None

    def forward(self, x: Tensor) -> Tensor:
        x = self.bn(self.conv(x))
        return self.act(x) if self.act else x


class SqueezeExcite(nn.Layer):
    """Channels scaled by a number that two small layers make of their means."""

    def __init__(self, channels: int, hidden: int, act: str = "relu", gate: str = "sigmoid"):
        super().__init__()
        self.pool = nn.AdaptiveAvgPool2D(1)
        self.reduce, self.expand = nn.Conv2D(channels, hidden, 1), nn.Conv2D(hidden, channels, 1)
        self.act, self.gate = getattr(F, act), getattr(F, gate)

    def forward(self, x: Tensor) -> Tensor:
        return x * self.gate(self.expand(self.act(self.reduce(self.pool(x)))))


# --- ConvNeXt-T


class ChannelNorm(nn.Layer):
    """A layer norm over the channels of [N, C, H, W], written out."""

    def __init__(self, channels: int):
        super().__init__()
        self.weight = self.create_parameter([channels], default_initializer=nn.initializer.Constant(1.0))
        self.bias = self.create_parameter([channels], is_bias=True)

    def forward(self, x: Tensor) -> Tensor:
        mean = x.mean(1, keepdim=True)
        variance = (x - mean).pow(2).mean(1, keepdim=True)
        x = (x - mean) / paddle.sqrt(variance + 1e-6)
        return self.weight[:, None, None] * x + self.bias[:, None, None]


class ConvNeXtBlock(nn.Layer):
    def __init__(self, channels: int):
        super().__init__()
        self.depthwise = nn.Conv2D(channels, channels, 7, padding=3, groups=channels)
        self.norm = nn.LayerNorm(channels, epsilon=1e-6)
        self.up, self.down = nn.Linear(channels, 4 * channels), nn.Linear(4 * channels, channels)
        self.gamma = self.create_parameter([channels], default_initializer=nn.initializer.Constant(1e-6))

    def forward(self, x: Tensor) -> Tensor:
        y = self.depthwise(x).transpose([0, 2, 3, 1])
        y = self.gamma * self.down(F.gelu(self.up(self.norm(y))))
        return x + y.transpose([0, 3, 1, 2])


class ConvNeXt(nn.Layer):
    """ConvNeXt-T."""

    def __init__(self, depths: tuple[int, ...] = (3, 3, 9, 3), widths: tuple[int, ...] = (96, 192, 384, 768)):
        super().__init__()
        stem = nn.Sequential(nn.Conv2D(3, widths[0], 4, stride=4), ChannelNorm(widths[0]))
        shrinks = [nn.Sequential(ChannelNorm(a), nn.Conv2D(a, b, 2, stride=2)) for a, b in zip(widths, widths[1:])]
        self.shrinks = nn.LayerList([stem, *shrinks])
        self.stages = nn.LayerList([nn.Sequential(*[ConvNeXtBlock(width) for _ in range(depth)]) for depth, width in zip(depths, widths)])
        self.norm, self.head = nn.LayerNorm(widths[-1], epsilon=1e-6), nn.Linear(widths[-1], 1000)

    def forward(self, x: Tensor) -> Tensor:
        for shrink, stage in zip(self.shrinks, self.stages):
            x = stage(shrink(x))
        return self.head(self.norm(x.mean([-2, -1])))


# --- EfficientNet-B0


class MBConv(nn.Layer):
    def __init__(self, inputs: int, outputs: int, kernel: int, stride: int, ratio: int):
        super().__init__()
        wide = inputs * ratio
        self.grow = ConvBN(inputs, wide, 1, act="swish") if ratio > 1 else None
        self.depthwise = ConvBN(wide, wide, kernel, stride, groups=wide, act="swish")
        self.excite = SqueezeExcite(wide, max(1, inputs // 4), "swish")
        self.project = ConvBN(wide, outputs, 1, act=None)
        self.residual = stride == 1 and inputs == outputs

    def forward(self, x: Tensor) -> Tensor:
        y = self.grow(x) if self.grow is not None else x
        y = self.project(self.excite(self.depthwise(y)))
        return x + y if self.residual else y


class EfficientNet(nn.Layer):
    """EfficientNet-B0."""

    # ratio, outputs, blocks, stride, kernel
    STAGES = (
        (1, 16, 1, 1, 3),
        (6, 24, 2, 2, 3),
        (6, 40, 2, 2, 5),
        (6, 80, 3, 2, 3),
        (6, 112, 3, 1, 5),
        (6, 192, 4, 2, 5),
        (6, 320, 1, 1, 3),
    )

    def __init__(self) -> None:
        super().__init__()
        blocks, inputs = [], 32
        for ratio, outputs, count, stride, kernel in self.STAGES:
            for i in range(count):
                blocks.append(MBConv(inputs, outputs, kernel, stride if i == 0 else 1, ratio))
                inputs = outputs
        self.stem, self.blocks, self.last = ConvBN(3, 32, 3, 2, act="swish"), nn.Sequential(*blocks), ConvBN(320, 1280, 1, act="swish")
        self.pool, self.dropout, self.head = nn.AdaptiveAvgPool2D(1), nn.Dropout(0.2), nn.Linear(1280, 1000)

    def forward(self, x: Tensor) -> Tensor:
        x = self.pool(self.last(self.blocks(self.stem(x))))
        return self.head(self.dropout(x.flatten(1)))


# --- Swin-T


def to_windows(x: Tensor, size: int) -> Tensor:
    """[N, H, W, C] as [N * windows, size * size, C]."""
    n, h, w, c = x.shape
    return x.reshape([-1, h // size, size, w // size, size, c]).transpose([0, 1, 3, 2, 4, 5]).reshape([-1, size * size, c])


def from_windows(x: Tensor, size: int, h: int, w: int) -> Tensor:
    c = x.shape[-1]
    return x.reshape([-1, h // size, w // size, size, size, c]).transpose([0, 1, 3, 2, 4, 5]).reshape([-1, h, w, c])


class WindowAttention(nn.Layer):
    """Attention within windows of `size` x `size`, with a learnt bias for each distance."""

    def __init__(self, width: int, size: int, heads: int):
        super().__init__()
        self.heads, self.scale = heads, (width // heads) ** -0.5
        self.table = self.create_parameter([(2 * size - 1) ** 2, heads])
        at = paddle.stack(paddle.meshgrid(paddle.arange(size), paddle.arange(size))).flatten(1)
        apart = (at.unsqueeze(2) - at.unsqueeze(1)).transpose([1, 2, 0]) + (size - 1)
        self.register_buffer("index", (apart[:, :, 0] * (2 * size - 1) + apart[:, :, 1]).reshape([-1]), persistable=False)
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        _, n, c = x.shape
        q, k, v = self.qkv(x).reshape([-1, n, 3, self.heads, c // self.heads]).transpose([2, 0, 3, 1, 4]).unbind(0)
        scores = paddle.matmul(q * self.scale, k, transpose_y=True)
        bias = paddle.index_select(self.table, self.index).reshape([n, n, -1]).transpose([2, 0, 1])
        scores = scores + bias.unsqueeze(0)
        if mask is not None:
            windows = mask.shape[0]
            scores = (scores.reshape([-1, windows, self.heads, n, n]) + mask.unsqueeze(1).unsqueeze(0)).reshape([-1, self.heads, n, n])
        return self.proj(paddle.matmul(F.softmax(scores, axis=-1), v).transpose([0, 2, 1, 3]).reshape([-1, n, c]))


class SwinBlock(nn.Layer):
    def __init__(self, width: int, side: int, heads: int, shift: int, window: int = 7):
        super().__init__()
        self.side, self.window, self.shift = side, min(window, side), shift if side > window else 0
        self.norm1, self.attention = nn.LayerNorm(width), WindowAttention(width, self.window, heads)
        self.norm2, self.mlp = nn.LayerNorm(width), nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
        mask = None
        if self.shift:
            # Neighbours in a shifted window that were not neighbours in the image do not see each other.
            regions = paddle.zeros([1, side, side, 1])
            parts = (slice(0, -window), slice(-window, -self.shift), slice(-self.shift, None))
            for i, (rows, columns) in enumerate((r, c) for r in parts for c in parts):
                regions[:, rows, columns, :] = float(i)
            kinds = to_windows(regions, window).squeeze(-1)
            apart = kinds.unsqueeze(1) - kinds.unsqueeze(2)
            mask = paddle.where(apart != 0, paddle.full_like(apart, -100.0), paddle.zeros_like(apart))
        self.register_buffer("mask", mask, persistable=False)

    def forward(self, x: Tensor) -> Tensor:
        _, length, c = x.shape
        y = self.norm1(x).reshape([-1, self.side, self.side, c])
        if self.shift:
            y = paddle.roll(y, shifts=(-self.shift, -self.shift), axis=(1, 2))
        y = from_windows(self.attention(to_windows(y, self.window), self.mask), self.window, self.side, self.side)
        if self.shift:
            y = paddle.roll(y, shifts=(self.shift, self.shift), axis=(1, 2))
        x = x + y.reshape([-1, length, c])
        return x + self.mlp(self.norm2(x))


class PatchMerging(nn.Layer):
    """Four neighbours become one place of twice the width."""

    def __init__(self, width: int, side: int):
        super().__init__()
        self.side, self.norm, self.reduction = side, nn.LayerNorm(4 * width), nn.Linear(4 * width, 2 * width, bias_attr=False)

    def forward(self, x: Tensor) -> Tensor:
        c = x.shape[-1]
        x = x.reshape([-1, self.side, self.side, c])
        x = paddle.concat([x[:, 0::2, 0::2, :], x[:, 1::2, 0::2, :], x[:, 0::2, 1::2, :], x[:, 1::2, 1::2, :]], axis=-1)
        return self.reduction(self.norm(x.reshape([-1, self.side * self.side // 4, 4 * c])))


class Swin(nn.Layer):
    """Swin-T for 224x224."""

    def __init__(self, depths: tuple[int, ...] = (2, 2, 6, 2), heads: tuple[int, ...] = (3, 6, 12, 24)):
        super().__init__()
        self.patches, self.norm = nn.Conv2D(3, 96, 4, stride=4), nn.LayerNorm(96)
        layers: list[nn.Layer] = []
        width, side = 96, 56
        for i, (depth, count) in enumerate(zip(depths, heads)):
            layers += [SwinBlock(width, side, count, 0 if j % 2 == 0 else 3) for j in range(depth)]
            if i < len(depths) - 1:
                layers.append(PatchMerging(width, side))
                width, side = 2 * width, side // 2
        self.layers = nn.LayerList(layers)
        self.last, self.head = nn.LayerNorm(width), nn.Linear(width, 1000)

    def forward(self, x: Tensor) -> Tensor:
        x = self.norm(self.patches(x).flatten(2).transpose([0, 2, 1]))
        for layer in self.layers:
            x = layer(x)
        return self.head(self.last(x).mean(1))


# --- U-Net


class DoubleConv(nn.Sequential):
    def __init__(self, inputs: int, outputs: int):
        super().__init__(ConvBN(inputs, outputs), ConvBN(outputs, outputs))


class UNet(nn.Layer):
    """U-Net with transposed convolutions on the way up, any image size."""

    def __init__(self, width: int = 32, classes: int = 2):
        super().__init__()
        widths = [width * 2**i for i in range(5)]
        self.first = DoubleConv(3, width)
        self.downs = nn.LayerList([nn.Sequential(nn.MaxPool2D(2), DoubleConv(a, b)) for a, b in zip(widths, widths[1:])])
        self.ups = nn.LayerList([nn.Conv2DTranspose(b, a, 2, stride=2) for a, b in zip(widths, widths[1:])][::-1])
        self.convs = nn.LayerList([DoubleConv(b, a) for a, b in zip(widths, widths[1:])][::-1])
        self.head = nn.Conv2D(width, classes, 1)

    def forward(self, x: Tensor) -> Tensor:
        kept = [self.first(x)]
        for down in self.downs:
            kept.append(down(kept[-1]))
        y = kept.pop()
        for up, conv in zip(self.ups, self.convs):
            skip, y = kept.pop(), up(y)
            dy, dx = skip.shape[2] - y.shape[2], skip.shape[3] - y.shape[3]
            y = F.pad(y, [dx // 2, dx - dx // 2, dy // 2, dy - dy // 2])
            y = conv(paddle.concat([skip, y], axis=1))
        return self.head(y)


# --- a detector


class CSPBlock(nn.Layer):
    """Half of the channels go through residual blocks, the others past them."""

    def __init__(self, inputs: int, outputs: int, count: int, residual: bool = True):
        super().__init__()
        half = outputs // 2
        self.main, self.past, self.join = (
            ConvBN(inputs, half, 1, act="silu"),
            ConvBN(inputs, half, 1, act="silu"),
            ConvBN(outputs, outputs, 1, act="silu"),
        )
        self.blocks = nn.LayerList(
            [nn.Sequential(ConvBN(half, half, 1, act="silu"), ConvBN(half, half, 3, act="silu")) for _ in range(count)]
        )
        self.residual = residual

    def forward(self, x: Tensor) -> Tensor:
        y = self.main(x)
        for block in self.blocks:
            y = y + block(y) if self.residual else block(y)
        return self.join(paddle.concat([y, self.past(x)], axis=1))


class Detector(nn.Layer):
    """Like YOLOX-tiny: a CSP trunk, a pyramid of three levels both ways, separate heads, boxes decoded without anchors. [N, boxes, 5 +
    classes], corners first.
    """

    def __init__(self, width: int = 24, classes: int = 80):
        super().__init__()
        w = [width * 2**i for i in range(5)]
        self.stem = ConvBN(12, w[0], 3, act="silu")
        self.stages = nn.LayerList(
            [nn.Sequential(ConvBN(a, b, 3, 2, act="silu"), CSPBlock(b, b, n)) for a, b, n in zip(w, w[1:], (1, 3, 3, 1))]
        )
        self.spp = nn.LayerList([nn.MaxPool2D(k, 1, k // 2) for k in (5, 9, 13)])
        self.spp_in, self.spp_out = ConvBN(w[4], w[3], 1, act="silu"), ConvBN(4 * w[3], w[4], 1, act="silu")
        self.lateral5, self.lateral4 = ConvBN(w[4], w[3], 1, act="silu"), ConvBN(w[3], w[2], 1, act="silu")
        self.up4, self.up3 = CSPBlock(w[4], w[3], 1, False), CSPBlock(w[3], w[2], 1, False)
        self.down3, self.down4 = ConvBN(w[2], w[2], 3, 2, act="silu"), ConvBN(w[3], w[3], 3, 2, act="silu")
        self.out4, self.out5 = CSPBlock(w[3], w[3], 1, False), CSPBlock(w[4], w[4], 1, False)
        head = w[2]
        self.stems = nn.LayerList([ConvBN(c, head, 1, act="silu") for c in w[2:]])
        self.towers = nn.LayerList([nn.Sequential(ConvBN(head, head, 3, act="silu"), ConvBN(head, head, 3, act="silu")) for _ in range(6)])
        self.classes = nn.LayerList([nn.Conv2D(head, classes, 1) for _ in range(3)])
        self.boxes = nn.LayerList([nn.Conv2D(head, 4, 1) for _ in range(3)])
        self.objects = nn.LayerList([nn.Conv2D(head, 1, 1) for _ in range(3)])

    def features(self, x: Tensor) -> list[Tensor]:
        # Every second pixel of rows and columns: four images of a quarter of the size.
        x = self.stem(paddle.concat([x[:, :, ::2, ::2], x[:, :, 1::2, ::2], x[:, :, ::2, 1::2], x[:, :, 1::2, 1::2]], axis=1))
        levels = []
        for stage in self.stages:
            x = stage(x)
            levels.append(x)
        _, p3, p4, p5 = levels
        p5 = self.spp_in(p5)
        p5 = self.lateral5(self.spp_out(paddle.concat([p5] + [pool(p5) for pool in self.spp], axis=1)))
        p4 = self.lateral4(self.up4(paddle.concat([F.interpolate(p5, scale_factor=2, mode="nearest"), p4], axis=1)))
        n3 = self.up3(paddle.concat([F.interpolate(p4, scale_factor=2, mode="nearest"), p3], axis=1))
        n4 = self.out4(paddle.concat([self.down3(n3), p4], axis=1))
        return [n3, n4, self.out5(paddle.concat([self.down4(n4), p5], axis=1))]

    def forward(self, x: Tensor) -> Tensor:
        found = []
        for i, level in enumerate(self.features(x)):
            y = self.stems[i](level)
            scores, boxed = self.towers[2 * i](y), self.towers[2 * i + 1](y)
            h, w = y.shape[2], y.shape[3]
            out = paddle.concat([self.boxes[i](boxed), F.sigmoid(self.objects[i](boxed)), F.sigmoid(self.classes[i](scores))], axis=1)
            centre, size, rest = paddle.split(out.flatten(2).transpose([0, 2, 1]), [2, 2, -1], axis=-1)
            rows, columns = paddle.meshgrid(paddle.arange(h, dtype="float32"), paddle.arange(w, dtype="float32"))
            grid = paddle.stack([columns, rows], axis=-1).reshape([1, -1, 2])
            stride = 8.0 * 2**i
            centre, size = (2 * F.sigmoid(centre) - 0.5 + grid) * stride, paddle.square(2 * F.sigmoid(size)) * stride
            found.append(paddle.concat([centre - size / 2, centre + size / 2, rest], axis=-1))
        return paddle.concat(found, axis=1)


# --- a reader of text lines


class LCBlock(nn.Layer):
    """Of PP-LCNet: depthwise, then pointwise, with hard swishes; perhaps squeezed and excited."""

    def __init__(self, inputs: int, outputs: int, kernel: int, stride: int | tuple[int, int], excite: bool):
        super().__init__()
        self.depthwise = nn.Conv2D(inputs, inputs, kernel, stride, padding=kernel // 2, groups=inputs, bias_attr=False)
        self.norm = nn.BatchNorm2D(inputs)
        self.excite = SqueezeExcite(inputs, inputs // 4, "relu", "hardsigmoid") if excite else None
        self.pointwise = ConvBN(inputs, outputs, 1, act="hardswish")

    def forward(self, x: Tensor) -> Tensor:
        x = F.hardswish(self.norm(self.depthwise(x)))
        return self.pointwise(x if self.excite is None else self.excite(x))


class TextReader(nn.Layer):
    """Like PP-OCR's recogniser: PP-LCNet down to a row of features, two LSTMs both ways, probabilities of 6625 signs for CTC."""

    # kernel, inputs, outputs, stride, excite
    BLOCKS = (
        (3, 16, 32, 1, False), (3, 32, 64, (2, 1), False), (3, 64, 64, 1, False), (3, 64, 128, (2, 1), False), (3, 128, 128, 1, False),
        (3, 128, 256, (1, 2), False), *((5, 256, 256, 1, False),) * 5, (5, 256, 512, (2, 1), True), (5, 512, 512, 1, True),
    )  # fmt: skip

    def __init__(self, signs: int = 6625):
        super().__init__()
        self.stem = ConvBN(3, 16, 3, 2, act="hardswish")
        self.blocks = nn.Sequential(
            *[LCBlock(inputs, outputs, kernel, stride, excite) for kernel, inputs, outputs, stride, excite in self.BLOCKS]
        )
        self.pool = nn.MaxPool2D((3, 2), (3, 2))
        self.lstm = nn.LSTM(512, 48, num_layers=2, direction="bidirect")
        self.head = nn.Linear(96, signs)

    def forward(self, x: Tensor) -> Tensor:
        x = self.pool(self.blocks(self.stem(x)))
        x, _ = self.lstm(x.squeeze(2).transpose([0, 2, 1]))
        return F.softmax(self.head(x), axis=2)


# --- sound and video


class WaveNet(nn.Layer):
    """Two stacks of ten causal dilated convolutions with gates, their outputs summed."""

    def __init__(self, channels: int = 64, skip: int = 128, stacks: int = 2, depth: int = 10):
        super().__init__()
        self.first = nn.Conv1D(1, channels, 1)
        self.dilations = [2**i for _ in range(stacks) for i in range(depth)]
        self.gates = nn.LayerList([nn.Conv1D(channels, 2 * channels, 2, dilation=d) for d in self.dilations])
        self.residuals = nn.LayerList([nn.Conv1D(channels, channels, 1) for _ in self.dilations])
        self.skips = nn.LayerList([nn.Conv1D(channels, skip, 1) for _ in self.dilations])
        self.last1, self.last2 = nn.Conv1D(skip, skip, 1), nn.Conv1D(skip, 256, 1)

    def forward(self, x: Tensor) -> Tensor:
        x, total = self.first(x), 0
        for dilation, gate, residual, skip in zip(self.dilations, self.gates, self.residuals, self.skips):
            filtered, gated = paddle.chunk(gate(F.pad(x, [dilation, 0], data_format="NCL")), 2, axis=1)
            y = paddle.tanh(filtered) * F.sigmoid(gated)
            total = total + skip(y)
            x = x + residual(y)
        return self.last2(F.relu(self.last1(F.relu(total))))


class VideoBlock(nn.Layer):
    def __init__(self, inputs: int, outputs: int, stride: int):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv3D(inputs, outputs, 3, stride, padding=1, bias_attr=False), nn.BatchNorm3D(outputs)
        self.conv2, self.bn2 = nn.Conv3D(outputs, outputs, 3, padding=1, bias_attr=False), nn.BatchNorm3D(outputs)
        self.short = None
        if stride != 1 or inputs != outputs:
            self.short = nn.Sequential(nn.Conv3D(inputs, outputs, 1, stride, bias_attr=False), nn.BatchNorm3D(outputs))

    def forward(self, x: Tensor) -> Tensor:
        y = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        return F.relu(y + (x if self.short is None else self.short(x)))


class VideoNet(nn.Layer):
    """R3D-18: ResNet-18 in three dimensions."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv3D(3, 64, (3, 7, 7), (1, 2, 2), padding=(1, 3, 3), bias_attr=False), nn.BatchNorm3D(64), nn.ReLU())
        widths = ((64, 64, 1), (64, 128, 2), (128, 256, 2), (256, 512, 2))
        self.blocks = nn.Sequential(*[block for a, b, stride in widths for block in (VideoBlock(a, b, stride), VideoBlock(b, b, 1))])
        self.pool, self.head = nn.AdaptiveAvgPool3D(1), nn.Linear(512, 400)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.pool(self.blocks(self.stem(x))).flatten(1))


# --- images from images


class SuperResolution(nn.Layer):
    """SRResNet: residual blocks with PReLU, then twice the pixels by `pixel_shuffle`, twice."""

    def __init__(self, width: int = 64, count: int = 8):
        super().__init__()
        self.first = nn.Sequential(nn.Conv2D(3, width, 9, padding=4), nn.PReLU())
        blocks = [nn.Sequential(ConvBN(width, width, act=None), nn.PReLU(), ConvBN(width, width, act=None)) for _ in range(count)]
        self.blocks, self.after = nn.LayerList(blocks), ConvBN(width, width, act=None)
        self.ups = nn.Sequential(
            *[layer for _ in range(2) for layer in (nn.Conv2D(width, 4 * width, 3, padding=1), nn.PixelShuffle(2), nn.PReLU())]
        )
        self.last = nn.Conv2D(width, 3, 9, padding=4)

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x)
        y = x
        for block in self.blocks:
            y = y + block(y)
        return self.last(self.ups(x + self.after(y)))


class ReflectConv(nn.Sequential):
    def __init__(self, inputs: int, outputs: int, kernel: int, stride: int = 1):
        super().__init__(nn.Pad2D(kernel // 2, mode="reflect"), nn.Conv2D(inputs, outputs, kernel, stride))


class StyleBlock(nn.Layer):
    def __init__(self, width: int):
        super().__init__()
        self.conv1, self.norm1 = ReflectConv(width, width, 3), nn.InstanceNorm2D(width)
        self.conv2, self.norm2 = ReflectConv(width, width, 3), nn.InstanceNorm2D(width)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.norm2(self.conv2(F.relu(self.norm1(self.conv1(x)))))


class StyleTransfer(nn.Layer):
    """A fast style transfer: reflected borders, instance norms, five residual blocks, resize and convolve on the way up."""

    def __init__(self) -> None:
        super().__init__()
        self.down = nn.Sequential(
            ReflectConv(3, 32, 9), nn.InstanceNorm2D(32), nn.ReLU(), ReflectConv(32, 64, 3, 2), nn.InstanceNorm2D(64), nn.ReLU(),
            ReflectConv(64, 128, 3, 2), nn.InstanceNorm2D(128), nn.ReLU(),
        )  # fmt: skip
        self.blocks = nn.Sequential(*[StyleBlock(128) for _ in range(5)])
        self.up1, self.norm1 = ReflectConv(128, 64, 3), nn.InstanceNorm2D(64)
        self.up2, self.norm2 = ReflectConv(64, 32, 3), nn.InstanceNorm2D(32)
        self.last = ReflectConv(32, 3, 9)

    def forward(self, x: Tensor) -> Tensor:
        x = self.blocks(self.down(x))
        x = F.relu(self.norm1(self.up1(F.interpolate(x, scale_factor=2))))
        x = F.relu(self.norm2(self.up2(F.interpolate(x, scale_factor=2))))
        return self.last(x)


class DiffusionResBlock(nn.Layer):
    def __init__(self, inputs: int, outputs: int, embedded: int):
        super().__init__()
        self.norm1, self.conv1 = nn.GroupNorm(32, inputs), nn.Conv2D(inputs, outputs, 3, padding=1)
        self.time = nn.Linear(embedded, outputs)
        self.norm2, self.conv2 = nn.GroupNorm(32, outputs), nn.Conv2D(outputs, outputs, 3, padding=1)
        self.short = nn.Conv2D(inputs, outputs, 1) if inputs != outputs else None

    def forward(self, x: Tensor, time: Tensor) -> Tensor:
        y = self.conv1(F.silu(self.norm1(x)))
        y = y + self.time(F.silu(time))[:, :, None, None]
        y = self.conv2(F.silu(self.norm2(y)))
        return y + (x if self.short is None else self.short(x))


class PixelAttention(nn.Layer):
    """Every pixel looks at all others."""

    def __init__(self, channels: int, heads: int = 4):
        super().__init__()
        self.heads, self.norm = heads, nn.GroupNorm(32, channels)
        self.qkv, self.out = nn.Conv1D(channels, 3 * channels, 1), nn.Conv1D(channels, channels, 1)

    def forward(self, x: Tensor) -> Tensor:
        b, c, h, w = x.shape
        q, k, v = paddle.chunk(self.qkv(self.norm(x).reshape([b, c, h * w])), 3, axis=1)
        q, k, v = (t.reshape([b, self.heads, c // self.heads, h * w]) for t in (q, k, v))
        scores = F.softmax(paddle.einsum("bhct,bhcs->bhts", q, k) * (c // self.heads) ** -0.5, axis=-1)
        y = paddle.einsum("bhts,bhcs->bhct", scores, v).reshape([b, c, h * w])
        return x + self.out(y).reshape([b, c, h, w])


class DiffusionUNet(nn.Layer):
    """A small UNet of a diffusion model: two resolutions, group norms and SiLU, a time step in sines, attention at the lower one."""

    def __init__(self, width: int = 64):
        super().__init__()
        self.width = width
        embedded, wide = 4 * width, 2 * width
        self.time = nn.Sequential(nn.Linear(width, embedded), nn.Silu(), nn.Linear(embedded, embedded))
        self.first = nn.Conv2D(4, width, 3, padding=1)
        self.down1, self.down2 = DiffusionResBlock(width, width, embedded), DiffusionResBlock(width, width, embedded)
        self.shrink = nn.Conv2D(width, width, 3, stride=2, padding=1)
        self.low1, self.attention1 = DiffusionResBlock(width, wide, embedded), PixelAttention(wide)
        self.low2, self.attention2 = DiffusionResBlock(wide, wide, embedded), PixelAttention(wide)
        self.grow = nn.Conv2D(wide, wide, 3, padding=1)
        self.up1, self.up2 = DiffusionResBlock(wide + width, width, embedded), DiffusionResBlock(2 * width, width, embedded)
        self.norm, self.last = nn.GroupNorm(32, width), nn.Conv2D(width, 4, 3, padding=1)

    def forward(self, x: Tensor, step: Tensor) -> Tensor:
        half = self.width // 2
        rates = paddle.exp(paddle.arange(half, dtype="float32") * (-9.210340371976184 / half))
        angles = step.astype("float32").unsqueeze(-1) * rates.unsqueeze(0)
        time = self.time(paddle.concat([paddle.sin(angles), paddle.cos(angles)], axis=-1))
        x = self.first(x)
        first = self.down1(x, time)
        second = self.down2(first, time)
        y = self.attention1(self.low1(self.shrink(second), time))
        y = self.grow(F.interpolate(self.attention2(self.low2(y, time)), scale_factor=2, mode="nearest"))
        y = self.up1(paddle.concat([y, second], axis=1), time)
        y = self.up2(paddle.concat([y, first], axis=1), time)
        return self.last(F.silu(self.norm(y)))
