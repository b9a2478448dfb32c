"""Nets in the shape of those that people deploy with Paddle, saved with free sizes, by Paddle's own Python:

    python benchmarks/deployed_models.py FOLDER [NAME ...]      # PaddlePaddle 3.3.1: NAME.json; 2.6.2: NAME_legacy.pdmodel

Weights are random, of fixed seeds, and so are the inputs. NAME.npz has the inputs, and Paddle's results, at three sizes. Widths and depths
are small, so that all compile in minutes; what the nets are made of is what the real ones are made of.
"""

from __future__ import annotations

import os
import sys

import numpy as np
import paddle
import paddle.nn.functional as F
from paddle import nn
from paddle.static import InputSpec

NETS = {}


def net(specs, *cases):
    """Register a Layer. Specs are (name, dtype, sizes); a case is a list of arrays."""

    def put(cls):
        NETS[cls.__name__] = (cls, specs, cases)
        return cls

    return put


def floats(*sizes, scale=1.0):
    return (np.random.default_rng(sum(sizes)).normal(size=sizes) * scale).astype("float32")


def ints(high, *sizes):
    return np.random.default_rng(sum(sizes)).integers(0, high, size=sizes).astype("int64")


IMAGE = [("image", "float32", [None, 3, None, None])]


class ConvNorm(nn.Layer):
    def __init__(self, cin, cout, k=3, stride=1, groups=1, act="relu"):
        super().__init__()
        self.conv = nn.Conv2D(cin, cout, k, stride, k // 2, groups=groups, bias_attr=False)
        self.norm = nn.BatchNorm2D(cout)
        self.act = act

    def forward(self, x):
        x = self.norm(self.conv(x))
        return x if self.act is None else getattr(F, self.act)(x)


class Squeeze(nn.Layer):
    def __init__(self, c):
        super().__init__()
        self.pool, self.down, self.up = nn.AdaptiveAvgPool2D(1), nn.Conv2D(c, c // 4, 1), nn.Conv2D(c // 4, c, 1)

    def forward(self, x):
        return x * F.hardsigmoid(self.up(F.relu(self.down(self.pool(x)))), slope=0.2, offset=0.5)


class Inverted(nn.Layer):
    """A block of MobileNetV3."""

    def __init__(self, cin, mid, cout, k, stride, squeeze, act):
        super().__init__()
        self.expand, self.deep = ConvNorm(cin, mid, 1, act=act), ConvNorm(mid, mid, k, stride, mid, act)
        self.squeeze, self.out = Squeeze(mid) if squeeze else None, ConvNorm(mid, cout, 1, act=None)
        self.same = stride == 1 and cin == cout

    def forward(self, x):
        y = self.deep(self.expand(x))
        if self.squeeze is not None:
            y = self.squeeze(y)
        y = self.out(y)
        return x + y if self.same else y


class Mobile(nn.Layer):
    """MobileNetV3's stages; the results of strides 4, 8, 16 and 32."""

    def __init__(self):
        super().__init__()
        self.stem = ConvNorm(3, 8, 3, 2, act="hardswish")
        self.s4 = nn.Sequential(Inverted(8, 16, 16, 3, 1, False, "relu"), Inverted(16, 32, 16, 3, 2, False, "relu"))
        self.s8 = nn.Sequential(Inverted(16, 40, 24, 5, 2, True, "relu"), Inverted(24, 64, 24, 5, 1, True, "relu"))
        self.s16 = nn.Sequential(Inverted(24, 120, 40, 3, 2, False, "hardswish"), Inverted(40, 104, 40, 3, 1, True, "hardswish"))
        self.s32 = nn.Sequential(Inverted(40, 240, 80, 5, 2, True, "hardswish"), ConvNorm(80, 120, 1, act="hardswish"))
        self.channels = [16, 24, 40, 120]

    def forward(self, x):
        c4 = self.s4(self.stem(x))
        c8 = self.s8(c4)
        c16 = self.s16(c8)
        return c4, c8, c16, self.s32(c16)


@net(IMAGE, [floats(1, 3, 64, 96)], [floats(1, 3, 96, 64)], [floats(2, 3, 160, 128)])
class ocr_det(nn.Layer):
    """PP-OCR's detector: MobileNetV3, a pyramid with squeeze blocks (RSEFPN), a head of differentiable binarization."""

    def __init__(self):
        super().__init__()
        self.body, c = Mobile(), 32
        self.into = nn.LayerList([nn.Conv2D(i, c, 1, bias_attr=False) for i in self.body.channels])
        self.rse = nn.LayerList([Squeeze(c) for _ in range(4)])
        self.out = nn.LayerList([nn.Conv2D(c, c // 4, 3, padding=1, bias_attr=False) for _ in range(4)])
        self.conv = ConvNorm(c, c // 4)
        self.up1, self.norm, self.up2 = (
            nn.Conv2DTranspose(c // 4, c // 4, 2, 2),
            nn.BatchNorm2D(c // 4),
            nn.Conv2DTranspose(c // 4, 1, 2, 2),
        )

    def forward(self, image):
        c2, c3, c4, c5 = [i(f) for i, f in zip(self.into, self.body(image))]
        c2, c3, c4, c5 = [f + r(f) for r, f in zip(self.rse, (c2, c3, c4, c5))]
        p4 = c4 + F.upsample(c5, scale_factor=2, mode="nearest", align_mode=1)
        p3 = c3 + F.upsample(p4, scale_factor=2, mode="nearest", align_mode=1)
        p2 = c2 + F.upsample(p3, scale_factor=2, mode="nearest", align_mode=1)
        o2, o3, o4, o5 = [o(p) for o, p in zip(self.out, (p2, p3, p4, c5))]
        up = [F.upsample(o, scale_factor=s, mode="nearest", align_mode=1) for o, s in ((o5, 8), (o4, 4), (o3, 2))]
        y = self.conv(paddle.concat([*up, o2], 1))
        return F.sigmoid(self.up2(F.relu(self.norm(self.up1(y)))))


@net([("image", "float32", [None, 3, 48, None])], [floats(1, 3, 48, 80)], [floats(2, 3, 48, 160)], [floats(3, 3, 48, 320)])
class ocr_rec(nn.Layer):
    """PP-OCR's recognizer: a MobileNet whose height goes to one, blocks of attention (SVTR), and CTC's softmax."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(
            ConvNorm(3, 16, 3, 2, act="hardswish"),
            Inverted(16, 32, 32, 3, 1, False, "hardswish"),
            Inverted(32, 64, 48, 3, (2, 1), True, "hardswish"),
            Inverted(48, 96, 64, 5, (2, 1), True, "hardswish"),
            Inverted(64, 128, 96, 5, 1, True, "hardswish"),
        )
        self.pool = nn.MaxPool2D(2, 2)
        self.into, self.back = ConvNorm(96, 48, 1, act="swish"), ConvNorm(48, 96, 1, act="swish")
        self.blocks = nn.LayerList([nn.TransformerEncoderLayer(48, 4, 96, 0.0, "gelu", normalize_before=True) for _ in range(2)])
        self.norm, self.fc = nn.LayerNorm(48), nn.Linear(96, 97)

    def forward(self, image):
        x = self.pool(self.body(image))
        h = self.into(x)
        b, c, height, width = paddle.shape(h)
        z = h.flatten(2).transpose([0, 2, 1])
        for block in self.blocks:
            z = block(z)
        z = self.norm(z).reshape([0, height, width, 48]).transpose([0, 3, 1, 2])
        z = self.back(z)
        z = F.avg_pool2d(z, [3, 1]).squeeze(2).transpose([0, 2, 1])
        return F.softmax(self.fc(z), axis=2)


@net(
    IMAGE + [("scale_factor", "float32", [None, 2])],
    *[[floats(1, 3, h, w), np.array([[1.0, 0.5]], "float32")] for h, w in ((96, 96), (128, 160), (192, 128))],
)
class pico_det(nn.Layer):
    """PicoDet: a light body, a pyramid in two directions (CSP-PAN), a head of distributions, and NMS inside."""

    def __init__(self):
        super().__init__()
        self.body, c = Mobile(), 32
        self.into = nn.LayerList([ConvNorm(i, c, 1, act="hardswish") for i in self.body.channels[1:]])
        self.td = nn.LayerList([ConvNorm(2 * c, c, 1, act="hardswish") for _ in range(2)])
        self.down = nn.LayerList([ConvNorm(c, c, 5, 2, c, "hardswish") for _ in range(2)])
        self.bu = nn.LayerList([ConvNorm(2 * c, c, 1, act="hardswish") for _ in range(2)])
        self.head = nn.LayerList(
            [nn.Sequential(ConvNorm(c, c, 5, 1, c, "hardswish"), ConvNorm(c, c, 1, act="hardswish")) for _ in range(3)]
        )
        self.cls, self.reg = nn.Conv2D(c, 6, 1), nn.Conv2D(c, 4 * 8, 1)
        self.strides, self.project = [8, 16, 32], paddle.arange(8, dtype="float32").reshape([1, 1, 1, 8])

    def points(self, x, stride):
        h, w = paddle.shape(x)[2], paddle.shape(x)[3]
        ys = (paddle.arange(h).astype("float32") + 0.5) * stride
        xs = (paddle.arange(w).astype("float32") + 0.5) * stride
        y, x = paddle.meshgrid(ys, xs)
        return paddle.stack([x.flatten(), y.flatten()], -1)

    def forward(self, image, scale_factor):
        a, b, c = [i(f) for i, f in zip(self.into, self.body(image)[1:])]
        b = self.td[0](paddle.concat([F.interpolate(c, size=paddle.shape(b)[2:], mode="nearest"), b], 1))
        a = self.td[1](paddle.concat([F.interpolate(b, size=paddle.shape(a)[2:], mode="nearest"), a], 1))
        b = self.bu[0](paddle.concat([self.down[0](a), b], 1))
        c = self.bu[1](paddle.concat([self.down[1](b), c], 1))
        scores, boxes = [], []
        for f, head, stride in zip((a, b, c), self.head, self.strides):
            h = head(f)
            scores.append(F.sigmoid(self.cls(h)).flatten(2))
            reg = self.reg(h).transpose([0, 2, 3, 1]).reshape([0, -1, 4, 8])
            d = (F.softmax(reg, -1) * self.project).sum(-1) * stride
            p = self.points(f, stride)
            boxes.append(paddle.concat([p - d[:, :, :2], p + d[:, :, 2:]], -1))
        scores, boxes = paddle.concat(scores, -1), paddle.concat(boxes, 1)
        sy, sx = scale_factor.split(2, -1)
        boxes = boxes / paddle.concat([sx, sy, sx, sy], -1).unsqueeze(1)
        out, _, num = nms(boxes, scores)
        return out, num


def nms(boxes, scores):
    """multiclass_nms3 as PaddleDetection calls it."""
    from paddle.base.layer_helper import LayerHelper

    attrs = {
        "background_label": -1,
        "score_threshold": 0.3,
        "nms_top_k": 50,
        "nms_threshold": 0.5,
        "keep_top_k": 20,
        "nms_eta": 1.0,
        "normalized": True,
    }
    if paddle.in_dynamic_mode() or paddle.base.framework.in_pir_mode():
        return paddle._C_ops.multiclass_nms3(boxes, scores, None, 0.3, 50, 20, 0.5, True, 1.0, -1)
    helper = LayerHelper("multiclass_nms3")
    out = helper.create_variable_for_type_inference("float32")
    index, num = helper.create_variable_for_type_inference("int32"), helper.create_variable_for_type_inference("int32")
    helper.append_op(
        type="multiclass_nms3",
        inputs={"BBoxes": boxes, "Scores": scores},
        attrs=attrs,
        outputs={"Out": out, "Index": index, "NmsRoisNum": num},
    )
    return out, index, num


class CSP(nn.Layer):
    """A stage of CSPRepResNet, its branches joined."""

    def __init__(self, cin, cout):
        super().__init__()
        self.down, mid = ConvNorm(cin, cout, 3, 2, act="swish"), cout // 2
        self.a, self.b = ConvNorm(cout, mid, 1, act="swish"), ConvNorm(cout, mid, 1, act="swish")
        self.blocks = nn.Sequential(*[ConvNorm(mid, mid, 3, act="swish") for _ in range(2)])
        self.fc, self.out = nn.Conv2D(cout, cout, 1), ConvNorm(cout, cout, 1, act="swish")

    def forward(self, x):
        x = self.down(x)
        a = self.a(x)
        b = self.b(x)
        y = paddle.concat([a, b + self.blocks(b)], 1)
        y = y * F.hardsigmoid(self.fc(y.mean((2, 3), keepdim=True)))
        return self.out(y)


@net(
    [("image", "float32", [None, 3, None, None]), ("scale_factor", "float32", [None, 2])],
    *[[floats(n, 3, h, w), np.ones((n, 2), "float32")] for n, h, w in ((1, 64, 64), (1, 96, 160), (2, 128, 96))],
)
class yoloe(nn.Layer):
    """PP-YOLOE: CSPRepResNet, a pyramid, the ET head with distributions by a convolution, NMS inside."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(ConvNorm(3, 16, 3, 2, act="swish"), ConvNorm(16, 24, 3, act="swish"))
        self.stages = nn.LayerList([CSP(24, 32), CSP(32, 48), CSP(48, 64), CSP(64, 96)])
        self.lat = nn.LayerList([ConvNorm(c, 48, 1, act="swish") for c in (48, 64, 96)])
        self.fpn = nn.LayerList([ConvNorm(96, 48, 1, act="swish") for _ in range(2)])
        self.ese = nn.LayerList([nn.Conv2D(48, 48, 1) for _ in range(3)])
        self.cls, self.reg = (
            nn.LayerList([nn.Conv2D(48, 8, 3, padding=1) for _ in range(3)]),
            nn.LayerList([nn.Conv2D(48, 68, 3, padding=1) for _ in range(3)]),
        )
        self.proj = nn.Conv2D(17, 1, 1, bias_attr=False)
        self.strides = (8, 16, 32)

    def forward(self, image, scale_factor):
        x, feats = self.stem(image), []
        for stage in self.stages:
            x = stage(x)
            feats.append(x)
        a, b, c = [lat(f) for lat, f in zip(self.lat, feats[1:])]
        b = self.fpn[0](paddle.concat([F.interpolate(c, scale_factor=2.0), b], 1))
        a = self.fpn[1](paddle.concat([F.interpolate(b, scale_factor=2.0), a], 1))
        scores, boxes = [], []
        for i, f in enumerate((a, b, c)):
            h, w = f.shape[2:]
            n = h * w
            pool = F.adaptive_avg_pool2d(f, (1, 1))
            g = f * F.sigmoid(self.ese[i](pool))
            scores.append(F.sigmoid(self.cls[i](g)).reshape([-1, 8, n]))
            d = self.reg[i](g).reshape([-1, 4, 17, n]).transpose([0, 2, 3, 1])
            d = self.proj(F.softmax(d, axis=1)).squeeze(1)
            sx, sy = paddle.arange(end=w) + 0.5, paddle.arange(end=h) + 0.5
            yy, xx = paddle.meshgrid(sy, sx)
            p = paddle.stack([xx, yy], -1).astype("float32").reshape([-1, 2])
            lt, rb = d.split(2, -1)
            boxes.append(paddle.concat([p - lt, p + rb], -1) * self.strides[i])
        scores, boxes = paddle.concat(scores, -1), paddle.concat(boxes, 1)
        sy, sx = paddle.split(scale_factor, 2, axis=-1)
        boxes = boxes / paddle.concat([sx, sy, sx, sy], -1).reshape([-1, 1, 4])
        out, _, num = nms(boxes, scores)
        return out, num


@net(
    [("image", "float32", [1, 3, None, None]), ("im_shape", "float32", [1, 2])],
    *[[floats(1, 3, h, w), np.array([[h, w]], "float32")] for h, w in ((64, 96), (96, 96), (128, 64))],
)
class faster_rcnn(nn.Layer):
    """Faster R-CNN: a pyramid, proposals of each level, regions dealt to levels, aligned, two products, boxes decoded, NMS."""

    def __init__(self):
        super().__init__()
        c = 16
        self.stem = nn.Sequential(ConvNorm(3, c, 7, 2), nn.MaxPool2D(3, 2, 1))
        self.stages = nn.LayerList(
            [
                nn.Sequential(ConvNorm(c * 2**i, c * 2 ** (i + 1), 3, 1 if i == 0 else 2), ConvNorm(c * 2 ** (i + 1), c * 2 ** (i + 1), 3))
                for i in range(3)
            ]
        )
        self.lat = nn.LayerList([nn.Conv2D(c * 2 ** (i + 1), c, 1) for i in range(3)])
        self.out = nn.LayerList([nn.Conv2D(c, c, 3, padding=1) for _ in range(3)])
        self.rpn, self.score, self.delta = nn.Conv2D(c, c, 3, padding=1), nn.Conv2D(c, 3, 1), nn.Conv2D(c, 12, 1)
        self.fc1, self.fc2, self.cls, self.box = nn.Linear(c * 49, 64), nn.Linear(64, 64), nn.Linear(64, 5), nn.Linear(64, 16)
        self.strides = (4, 8, 16)

    def anchors(self, f, stride):
        h, w = paddle.shape(f)[2], paddle.shape(f)[3]
        size = stride * 4.0
        base = paddle.to_tensor([[-size * r, -size / r, size * r, size / r] for r in (0.7, 1.0, 1.4)]) / 2
        xs, ys = paddle.arange(0, w * stride, stride).astype("float32"), paddle.arange(0, h * stride, stride).astype("float32")
        y, x = paddle.meshgrid(ys, xs)
        shift = paddle.stack([x.flatten(), y.flatten(), x.flatten(), y.flatten()], -1).reshape([-1, 1, 4])
        return (base.reshape([1, -1, 4]) + shift).reshape([-1, 4])

    def forward(self, image, im_shape):
        x, feats = self.stem(image), []
        for stage in self.stages:
            x = stage(x)
            feats.append(x)
        ps = [lat(f) for lat, f in zip(self.lat, feats)]
        for i in (1, 0):
            ps[i] = ps[i] + F.interpolate(ps[i + 1], scale_factor=2.0, mode="nearest")
        ps = [o(p) for o, p in zip(self.out, ps)]
        rois, probs = [], []
        for p, stride in zip(ps, self.strides):
            h = F.tanh(self.rpn(p))
            prior = self.anchors(p, stride)
            r, s, n = paddle.vision.ops.generate_proposals(
                F.sigmoid(self.score(h)),
                self.delta(h) * 0.1,
                im_shape,
                prior,
                paddle.ones_like(prior),
                50,
                20,
                0.7,
                0.0,
                1.0,
                return_rois_num=True,
            )
            rois.append(r)
            probs.append(s)
        rois, probs = paddle.concat(rois), paddle.concat(probs).flatten()
        top, order = paddle.topk(probs, 30)
        rois = paddle.gather(rois, order)
        levels, back, nums = paddle.vision.ops.distribute_fpn_proposals(rois, 2, 4, 3, 56, rois_num=paddle.shape(rois)[:1].astype("int32"))
        pooled = [paddle.vision.ops.roi_align(p, r, n, 7, 1.0 / s, 2, True) for p, r, n, s in zip(ps, levels, nums, self.strides)]
        y = paddle.gather(paddle.concat(pooled), back.flatten())
        y = F.tanh(self.fc2(F.tanh(self.fc1(y.flatten(1)))))
        scores = F.softmax(self.cls(y), -1)
        w, h = rois[:, 2] - rois[:, 0], rois[:, 3] - rois[:, 1]
        cx, cy = rois[:, 0] + w * 0.5, rois[:, 1] + h * 0.5
        d = self.box(y).reshape([-1, 4, 4]) * paddle.to_tensor([0.1, 0.1, 0.2, 0.2])
        pcx, pcy = d[:, :, 0] * w.unsqueeze(1) + cx.unsqueeze(1), d[:, :, 1] * h.unsqueeze(1) + cy.unsqueeze(1)
        pw, ph = (
            paddle.exp(paddle.clip(d[:, :, 2], max=4.0)) * w.unsqueeze(1),
            paddle.exp(paddle.clip(d[:, :, 3], max=4.0)) * h.unsqueeze(1),
        )
        boxes = paddle.stack([pcx - pw / 2, pcy - ph / 2, pcx + pw / 2, pcy + ph / 2], -1)
        best = boxes.mean(1)
        out, _, num = nms(best.unsqueeze(0), scores[:, :4].transpose([1, 0]).unsqueeze(0))
        return out, num


@net(IMAGE, [floats(1, 3, 64, 96)], [floats(1, 3, 128, 128)], [floats(2, 3, 96, 192)])
class lite_seg(nn.Layer):
    """PP-LiteSeg: short-term dense blocks, pooled context (SPPM), attention that joins scales (UAFM), argmax at the image's size."""

    def __init__(self):
        super().__init__()
        self.s1 = nn.Sequential(ConvNorm(3, 16, 3, 2), ConvNorm(16, 24, 3, 2))
        self.s2, self.s3 = self.dense(24, 48), self.dense(48, 96)
        self.pools = nn.LayerList([nn.Sequential(nn.AdaptiveAvgPool2D(s), ConvNorm(96, 24, 1)) for s in (1, 2, 4)])
        self.ctx = ConvNorm(24, 32)
        self.x = nn.LayerList([ConvNorm(c, 32) for c in (48, 24)])
        self.att = nn.LayerList([nn.Sequential(ConvNorm(4, 2), nn.Conv2D(2, 1, 3, padding=1)) for _ in range(2)])
        self.o = nn.LayerList([ConvNorm(32, 32) for _ in range(2)])
        self.cls = nn.Conv2D(32, 7, 1)

    @staticmethod
    def dense(cin, cout):
        return nn.LayerList(
            [
                ConvNorm(cin, cout // 2, 1),
                ConvNorm(cout // 2, cout // 2, 3, 2, cout // 2, None),
                ConvNorm(cout // 2, cout // 4),
                ConvNorm(cout // 4, cout // 4),
            ]
        )

    def stage(self, layers, x):
        a = layers[0](x)
        b = layers[1](a)
        c = layers[2](b)
        return paddle.concat([F.avg_pool2d(a, 3, 2, 1), c, layers[3](c)], 1)

    def forward(self, image):
        size = paddle.shape(image)[2:]
        a = self.s1(image)
        b = self.stage(self.s2, a)
        c = self.stage(self.s3, b)
        y = None
        for pool in self.pools:
            u = F.interpolate(pool(c), paddle.shape(c)[2:], mode="bilinear", align_corners=False)
            y = u if y is None else y + u
        y = self.ctx(y)
        for low, conv, att, out in zip((b, a), self.x, self.att, self.o):
            low = conv(low)
            y = F.interpolate(y, paddle.shape(low)[2:], mode="bilinear", align_corners=False)
            both = paddle.concat([low.mean(1, keepdim=True), low.max(1, keepdim=True), y.mean(1, keepdim=True), y.max(1, keepdim=True)], 1)
            w = F.sigmoid(att(both))
            y = out(low * w + y * (1 - w))
        y = F.interpolate(self.cls(y), size, mode="bilinear", align_corners=False)
        return paddle.argmax(y, axis=1, dtype="int32"), y


@net(
    [("input_ids", "int64", [None, None]), ("token_type_ids", "int64", [None, None])],
    *[[ints(200, b, t), ints(2, b, t)] for b, t in ((1, 7), (2, 16), (3, 33))],
)
class ernie(nn.Layer):
    """ERNIE for classification: embeddings, a mask made of the padding id, encoder layers, the pooled first word."""

    def __init__(self):
        super().__init__()
        self.word, self.pos, self.kind = nn.Embedding(200, 64), nn.Embedding(64, 64), nn.Embedding(2, 64)
        self.norm = nn.LayerNorm(64)
        self.encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(64, 4, 128, 0.0, "gelu"), 3)
        self.pool, self.fc = nn.Linear(64, 64), nn.Linear(64, 5)

    def forward(self, input_ids, token_type_ids):
        mask = (input_ids == 0).astype("float32").unsqueeze([1, 2]) * -1e4
        ones = paddle.ones_like(input_ids)
        positions = paddle.cumsum(ones, axis=-1) - ones
        x = self.norm(self.word(input_ids) + self.pos(positions) + self.kind(token_type_ids))
        x = self.encoder(x, mask)
        return self.fc(F.tanh(self.pool(x[:, 0]))), x


@net([("ids", "int64", [None, None])], [ints(60, 1, 4)], [ints(60, 2, 6)], [ints(60, 3, 9)])
class gpt_greedy(nn.Layer):
    """GPT with its greedy loop inside: each round runs the decoder on all ids so far and appends the best next one."""

    def __init__(self):
        super().__init__()
        self.word, self.pos = nn.Embedding(60, 48), nn.Embedding(64, 48)
        self.blocks = nn.LayerList([nn.TransformerEncoderLayer(48, 4, 96, 0.0, "gelu", normalize_before=True) for _ in range(2)])
        self.norm = nn.LayerNorm(48)

    def logits(self, ids):
        t = paddle.shape(ids)[1]
        x = self.word(ids) + self.pos(paddle.arange(t).unsqueeze(0))
        mask = paddle.triu(paddle.full([t, t], -1e4), 1)
        for block in self.blocks:
            x = block(x, mask)
        return paddle.matmul(self.norm(x[:, -1]), self.word.weight, transpose_y=True)

    def forward(self, ids):
        i = paddle.zeros([1], "int64")
        while i < 5:
            best = paddle.argmax(self.logits(ids), -1, keepdim=True)
            ids = paddle.concat([ids, best], 1)
            i = i + 1
        return ids


@net([("sparse", "int64", [None, 8]), ("dense", "float32", [None, 5])], *[[ints(100, b, 8), floats(b, 5)] for b in (1, 7, 64)])
class wide_deep(nn.Layer):
    """Wide & deep: a linear part beside embeddings and a stack of products."""

    def __init__(self):
        super().__init__()
        self.wide, self.table = nn.Linear(5, 1), nn.Embedding(100, 9)
        self.deep = nn.Sequential(nn.Linear(77, 64), nn.ReLU(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 1))

    def forward(self, sparse, dense):
        e = paddle.concat([self.table(c).reshape([-1, 9]) for c in paddle.split(sparse, 8, 1)] + [dense], 1)
        return F.sigmoid(self.wide(dense) + self.deep(e))


@net(IMAGE, [floats(1, 3, 32, 48)], [floats(1, 3, 56, 40)], [floats(2, 3, 64, 64)])
class swin(nn.Layer):
    """Swin: windows of a padded map, shifted by rolls with a mask made from the sizes, patches merged."""

    def __init__(self):
        super().__init__()
        self.patch, self.norm = nn.Conv2D(3, 24, 4, 4), nn.LayerNorm(24)
        self.qkv, self.proj = nn.LayerList([nn.Linear(24, 72) for _ in range(2)]), nn.LayerList([nn.Linear(24, 24) for _ in range(2)])
        self.n1, self.n2 = nn.LayerList([nn.LayerNorm(24) for _ in range(2)]), nn.LayerList([nn.LayerNorm(24) for _ in range(2)])
        self.mlp = nn.LayerList([nn.Sequential(nn.Linear(24, 48), nn.GELU(), nn.Linear(48, 24)) for _ in range(2)])
        self.bias = self.create_parameter([3, 16, 16])
        self.merge_norm, self.merge, self.fc = nn.LayerNorm(96), nn.Linear(96, 48, bias_attr=False), nn.Linear(48, 10)
        self.w = 4

    def windows(self, x):
        b, h, w, c = x.shape
        return x.reshape([b, h // 4, 4, w // 4, 4, c]).transpose([0, 1, 3, 2, 4, 5]).reshape([-1, 16, c])

    def attend(self, i, x, mask):
        b, n, c = x.shape
        q, k, v = self.qkv[i](x).reshape([b, n, 3, 3, 8]).transpose([2, 0, 3, 1, 4]).unbind(0)
        a = paddle.matmul(q * 8**-0.5, k, transpose_y=True) + self.bias
        if mask is not None:
            m = mask.shape[0]
            a = (a.reshape([-1, m, 3, 16, 16]) + mask.unsqueeze(1).unsqueeze(0)).reshape([-1, 3, 16, 16])
        return self.proj[i](paddle.matmul(F.softmax(a, -1), v).transpose([0, 2, 1, 3]).reshape([b, n, c]))

    def forward(self, image):
        x = self.patch(image)
        _, _, h, w = paddle.shape(x)
        x = self.norm(x.flatten(2).transpose([0, 2, 1]))
        hp, wp = (h + 3) // 4 * 4, (w + 3) // 4 * 4
        rows = paddle.zeros([1, hp, wp, 1])
        for i in range(2):
            short, shift = x, 2 * i
            y = self.n1[i](x).reshape([-1, h, w, 24])
            y = F.pad(y.transpose([0, 3, 1, 2]), [0, wp - w, 0, hp - h]).transpose([0, 2, 3, 1])
            mask = None
            if shift:
                y = paddle.roll(y, [-shift, -shift], [1, 2])
                r = (paddle.arange(hp) >= hp - 4).astype("float32") + (paddle.arange(hp) >= hp - 2).astype("float32")
                c = (paddle.arange(wp) >= wp - 4).astype("float32") + (paddle.arange(wp) >= wp - 2).astype("float32")
                cells = self.windows(rows + r.reshape([1, -1, 1, 1]) * 3 + c.reshape([1, 1, -1, 1])).squeeze(-1)
                mask = paddle.where(cells.unsqueeze(1) == cells.unsqueeze(2), paddle.zeros([1]), paddle.full([1], -100.0))
            y = self.attend(i, self.windows(y), mask)
            y = y.reshape([-1, hp // 4, wp // 4, 4, 4, 24]).transpose([0, 1, 3, 2, 4, 5]).reshape([-1, hp, wp, 24])
            if shift:
                y = paddle.roll(y, [shift, shift], [1, 2])
            x = short + y[:, :h, :w].reshape([-1, h * w, 24])
            x = x + self.mlp[i](self.n2[i](x))
        x = x.reshape([-1, h, w, 24])
        x = F.pad(x.transpose([0, 3, 1, 2]), [0, w % 2, 0, h % 2]).transpose([0, 2, 3, 1])
        x = paddle.concat([x[:, 0::2, 0::2], x[:, 1::2, 0::2], x[:, 0::2, 1::2], x[:, 1::2, 1::2]], -1)
        x = self.merge(self.merge_norm(x.reshape([0, -1, 96])))
        return self.fc(x.mean(1))


@net(IMAGE, [floats(1, 3, 64, 64)], [floats(1, 3, 80, 112)], [floats(2, 3, 51, 67)])
class unet(nn.Layer):
    """U-Net: four levels, transposed convolutions, skips padded to fit odd sizes."""

    def __init__(self):
        super().__init__()
        self.inc = nn.Sequential(ConvNorm(3, 16), ConvNorm(16, 16))
        self.downs = nn.LayerList([nn.Sequential(nn.MaxPool2D(2), ConvNorm(c, 2 * c), ConvNorm(2 * c, 2 * c)) for c in (16, 32, 64)])
        self.ups = nn.LayerList([nn.Conv2DTranspose(2 * c, c, 2, 2) for c in (64, 32, 16)])
        self.convs = nn.LayerList([nn.Sequential(ConvNorm(2 * c, c), ConvNorm(c, c)) for c in (64, 32, 16)])
        self.out = nn.Conv2D(16, 4, 1)

    def forward(self, image):
        feats = [self.inc(image)]
        for down in self.downs:
            feats.append(down(feats[-1]))
        y = feats.pop()
        for up, conv in zip(self.ups, self.convs):
            skip, y = feats.pop(), up(y)
            dh, dw = paddle.shape(skip)[2] - paddle.shape(y)[2], paddle.shape(skip)[3] - paddle.shape(y)[3]
            y = F.pad(y, paddle.stack([dw // 2, dw - dw // 2, dh // 2, dh - dh // 2]).astype("int32"))
            y = conv(paddle.concat([skip, y], 1))
        return self.out(y)


@net(IMAGE, [floats(1, 3, 33, 47)], [floats(1, 3, 64, 48)], [floats(2, 3, 40, 40)])
class deformable(nn.Layer):
    """A backbone with deformable convolutions (v2), whose offsets and masks a convolution makes."""

    def __init__(self):
        super().__init__()
        self.stem, self.offset = ConvNorm(3, 16, 3, 2), nn.Conv2D(16, 27, 3, padding=1)
        self.dcn, self.norm, self.fc = (
            paddle.vision.ops.DeformConv2D(16, 24, 3, padding=1, bias_attr=False),
            nn.BatchNorm2D(24),
            nn.Linear(24, 6),
        )

    def forward(self, image):
        x = self.stem(image)
        o = self.offset(x)
        y = self.dcn(x, o[:, :18], F.sigmoid(o[:, 18:]))
        return self.fc(F.relu(self.norm(y)).mean([2, 3]))


@net(IMAGE, [floats(1, 3, 32, 32)], [floats(2, 3, 40, 24)], [floats(4, 3, 64, 64)])
class quant_aware(nn.Layer):
    """A net trained for eight bits, its fake quantizers left in."""

    def __init__(self):
        super().__init__()
        from paddle.nn.quant import quant_layers

        self.conv = quant_layers.QuantizedConv2D(
            nn.Conv2D(3, 16, 3, 2, 1), weight_quantize_type="channel_wise_abs_max", activation_quantize_type="moving_average_abs_max"
        )
        self.deep = quant_layers.QuantizedConv2D(
            nn.Conv2D(16, 16, 3, 1, 1, groups=16),
            weight_quantize_type="channel_wise_abs_max",
            activation_quantize_type="moving_average_abs_max",
        )
        self.fc = quant_layers.QuantizedLinear(
            nn.Linear(16, 6), weight_quantize_type="abs_max", activation_quantize_type="moving_average_abs_max"
        )
        self.train()
        for seed in range(3):
            self(paddle.to_tensor(floats(2, 3, 32, 32 + seed)))

    def forward(self, image):
        return self.fc(F.relu(self.deep(F.relu(self.conv(image)))).mean([2, 3]))


# --- saving


def flat(value):
    if isinstance(value, (list, tuple)):
        return [one for item in value for one in flat(item)]
    return [value] if hasattr(value, "numpy") else []


def save(name, folder, legacy):
    cls, specs, cases = NETS[name]
    paddle.seed(7)
    layer = cls()
    rng = np.random.default_rng(5)
    for norm in layer.sublayers():
        if isinstance(norm, nn.BatchNorm2D):
            norm._mean.set_value(rng.normal(0, 0.3, norm._mean.shape).astype("float32"))
            norm._variance.set_value(rng.uniform(0.5, 1.5, norm._variance.shape).astype("float32"))
    layer.eval()
    path = os.path.join(folder, name + ("_legacy" if legacy else ""))
    specs = [InputSpec(sizes, dtype, name=at) for at, dtype, sizes in specs]
    paddle.jit.save(paddle.jit.to_static(layer, input_spec=specs, full_graph=True), path)
    loaded = paddle.jit.load(path)
    kept = {}
    for number, case in enumerate(cases):
        for spec, array in zip(specs, case):
            kept[f"{number}/in/{spec.name}"] = array
        for at, out in enumerate(flat(loaded(*[paddle.to_tensor(array) for array in case]))):
            kept[f"{number}/out/{at}"] = out.numpy()
    np.savez_compressed(path + ".npz", **kept)
    print(name, "legacy" if legacy else "pir", {k: v.shape for k, v in kept.items() if "/out/" in k}, flush=True)


def main():
    folder, legacy = sys.argv[1], paddle.__version__ < "3"
    names = [a for a in sys.argv[2:] if not a.startswith("--")] or list(NETS)
    os.makedirs(folder, exist_ok=True)
    failed = False
    for name in names:
        try:
            save(name, folder, legacy)
        except Exception as error:
            # Paddle cannot write every net in every format: the others are written, and the exit status says it.
            failed = True
            print(name, "legacy" if legacy else "pir", "FAILED", type(error).__name__, str(error)[-600:].replace("\n", " | "), flush=True)
    sys.exit(failed)


if __name__ == "__main__":
    main()
