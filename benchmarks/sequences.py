"""Networks as people write them in Paddle: those for words, tables and graphs, in the manner of `benchmarks/architectures.py`."""

from __future__ import annotations

import math
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING or "paddle" not in sys.modules:
    import polyreme as paddle
else:
    import paddle

nn, F = paddle.nn, paddle.nn.functional
Tensor = paddle.Tensor


# --- a decoder like LLaMA's


class RMSNorm(nn.Layer):
    def __init__(self, width: int, epsilon: float = 1e-6):
        super().__init__()
        self.weight = self.create_parameter([width], default_initializer=nn.initializer.Constant(1.0))
        self.epsilon = epsilon

    def forward(self, x: Tensor) -> Tensor:
        wide = x.astype("float32")
        scaled = wide * paddle.rsqrt(wide.pow(2).mean(-1, keepdim=True) + self.epsilon)
        return scaled.astype(x.dtype) * self.weight


def rotate_half(x: Tensor) -> Tensor:
    first, second = paddle.chunk(x, 2, axis=-1)
    return paddle.concat([-second, first], axis=-1)


class GroupedAttention(nn.Layer):
    """Causal attention with rotary positions, whose keys and values are shared by groups of heads and kept from step to step."""

    def __init__(self, width: int, heads: int, shared: int):
        super().__init__()
        self.heads, self.shared, self.size = heads, shared, width // heads
        self.q, self.k = nn.Linear(width, width, bias_attr=False), nn.Linear(width, shared * self.size, bias_attr=False)
        self.v, self.o = nn.Linear(width, shared * self.size, bias_attr=False), nn.Linear(width, width, bias_attr=False)


    def forward(
        self, x: Tensor, cos: Tensor, sin: Tensor, mask: Tensor | None, past: tuple[Tensor, Tensor] | None
    ) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        b, t, _ = x.shape
        q = self.q(x).reshape([b, t, self.heads, self.size]).transpose([0, 2, 1, 3])
        k = self.k(x).reshape([b, t, self.shared, self.size]).transpose([0, 2, 1, 3])
        v = self.v(x).reshape([b, t, self.shared, self.size]).transpose([0, 2, 1, 3])
        q, k = q * cos + rotate_half(q) * sin, k * cos + rotate_half(k) * sin
        if past is not None:
            k, v = paddle.concat([past[0], k], axis=2), paddle.concat([past[1], v], axis=2)
        length, repeat = k.shape[2], self.heads // self.shared
        keys = k.unsqueeze(2).expand([b, self.shared, repeat, length, self.size]).reshape([b, self.heads, length, self.size])
        values = v.unsqueeze(2).expand([b, self.shared, repeat, length, self.size]).reshape([b, self.heads, length, self.size])
        scores = paddle.matmul(q, keys.transpose([0, 1, 3, 2])) / math.sqrt(self.size)
        if mask is not None:
            scores = scores + mask
        mixed = paddle.matmul(F.softmax(scores.astype("float32"), axis=-1).astype(q.dtype), values)
        return self.o(mixed.transpose([0, 2, 1, 3]).reshape([b, t, self.heads * self.size])), (k, v)


class DecoderLayer(nn.Layer):
    def __init__(self, width: int, heads: int, shared: int, hidden: int):
        super().__init__()
        self.norm1, self.attention, self.norm2 = RMSNorm(width), GroupedAttention(width, heads, shared), RMSNorm(width)
        self.gate, self.up = nn.Linear(width, hidden, bias_attr=False), nn.Linear(width, hidden, bias_attr=False)
        self.down = nn.Linear(hidden, width, bias_attr=False)


    def forward(
        self, x: Tensor, cos: Tensor, sin: Tensor, mask: Tensor | None, past: tuple[Tensor, Tensor] | None
    ) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        mixed, kept = self.attention(self.norm1(x), cos, sin, mask, past)
        x = x + mixed
        y = self.norm2(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y)), kept


class Decoder(nn.Layer):
    """Four layers like LLaMA's over 8000 words. `past`, [2 * layers, shared heads, words, size] for each text, is absent at first; gives
    scores of the next word and the new `past`.
    """


    def __init__(
        self, width: int = 512, heads: int = 8, shared: int = 2, hidden: int = 1376, layers: int = 4, words: int = 8000, longest: int = 2048
    ):
        super().__init__()
        size = width // heads
        self.words, self.norm, self.head = nn.Embedding(words, width), RMSNorm(width), nn.Linear(width, words, bias_attr=False)
        self.layers = nn.LayerList([DecoderLayer(width, heads, shared, hidden) for _ in range(layers)])
        rates = 1.0 / 10000.0 ** (paddle.arange(0, size, 2, dtype="float32") / size)
        angles = paddle.outer(paddle.arange(longest, dtype="float32"), rates)
        angles = paddle.concat([angles, angles], axis=-1)
        self.register_buffer("cos", paddle.cos(angles), persistable=False)
        self.register_buffer("sin", paddle.sin(angles), persistable=False)

    def forward(self, words: Tensor, past: Tensor | None = None) -> tuple[Tensor, Tensor]:
        t = words.shape[1]
        before = 0 if past is None else past.shape[3]
        cos, sin = self.cos[before : before + t], self.sin[before : before + t]
        mask = paddle.triu(paddle.full([t, t], -1e9), diagonal=1) if past is None else None
        x, kept = self.words(words), []
        for i, layer in enumerate(self.layers):
            x, pair = layer(x, cos, sin, mask, None if past is None else (past[:, 2 * i], past[:, 2 * i + 1]))
            kept += pair
        return self.head(self.norm(x[:, -1])), paddle.stack(kept, axis=1)


# --- an encoder like T5's


class RelativeAttention(nn.Layer):
    """Attention with a bias by distance, in buckets that grow with it. Scores are scaled here, as weights are drawn; T5 has the scale in
    its weights.
    """

    def __init__(self, width: int, heads: int, biased: bool):
        super().__init__()
        self.heads, self.size = heads, width // heads
        self.q, self.k = nn.Linear(width, width, bias_attr=False), nn.Linear(width, width, bias_attr=False)
        self.v, self.o = nn.Linear(width, width, bias_attr=False), nn.Linear(width, width, bias_attr=False)
        self.distances = nn.Embedding(32, heads) if biased else None

    @staticmethod
    def bucket(distance: Tensor, buckets: int = 16, furthest: int = 128) -> Tensor:
        later = (distance > 0).astype("int64") * buckets
        distance = paddle.abs(distance)
        exact = buckets // 2
        far = exact + (paddle.log(distance.astype("float32") / exact) / math.log(furthest / exact) * (buckets - exact)).astype("int64")
        far = paddle.minimum(far, paddle.full_like(far, buckets - 1))
        return later + paddle.where(distance < exact, distance, far)

    def forward(self, x: Tensor, bias: Tensor | None) -> tuple[Tensor, Tensor]:
        t = x.shape[1]
        q, k, v = (layer(x).reshape([0, 0, self.heads, self.size]).transpose([0, 2, 1, 3]) for layer in (self.q, self.k, self.v))
        scores = paddle.matmul(q * self.size**-0.5, k, transpose_y=True)
        if bias is None:
            at = paddle.arange(t, dtype="int64")
            bias = self.distances(self.bucket(at.unsqueeze(0) - at.unsqueeze(1))).transpose([2, 0, 1]).unsqueeze(0)
        mixed = paddle.matmul(F.softmax(scores + bias, axis=-1), v)
        return self.o(mixed.transpose([0, 2, 1, 3]).flatten(2)), bias


class T5Layer(nn.Layer):
    def __init__(self, width: int, heads: int, hidden: int, biased: bool):
        super().__init__()
        self.norm1, self.attention, self.norm2 = RMSNorm(width), RelativeAttention(width, heads, biased), RMSNorm(width)
        self.gate, self.up = nn.Linear(width, hidden, bias_attr=False), nn.Linear(width, hidden, bias_attr=False)
        self.down = nn.Linear(hidden, width, bias_attr=False)

    def forward(self, x: Tensor, bias: Tensor | None) -> tuple[Tensor, Tensor]:
        mixed, bias = self.attention(self.norm1(x), bias)
        x = x + mixed
        y = self.norm2(x)
        return x + self.down(F.gelu(self.gate(y), approximate=True) * self.up(y)), bias


class T5Encoder(nn.Layer):
    """Six layers of T5 1.1 small."""

    def __init__(self, width: int = 512, heads: int = 8, hidden: int = 1024, layers: int = 6, words: int = 8000):
        super().__init__()
        self.words, self.norm = nn.Embedding(words, width), RMSNorm(width)
        self.layers = nn.LayerList([T5Layer(width, heads, hidden, i == 0) for i in range(layers)])

    def forward(self, words: Tensor) -> Tensor:
        x, bias = self.words(words), None
        for layer in self.layers:
            x, bias = layer(x, bias)
        return self.norm(x)


# --- a translator with GRUs


class Translator(nn.Layer):
    """A GRU both ways reads, a GRU cell with additive attention writes sixteen words, each the likeliest."""

    def __init__(self, words: int = 8000, width: int = 256, steps: int = 16):
        super().__init__()
        self.steps = steps
        self.source, self.target = nn.Embedding(words, width), nn.Embedding(words, width)
        self.encoder = nn.GRU(width, width, direction="bidirectional")
        self.bridge, self.cell = nn.Linear(2 * width, width), nn.GRUCell(3 * width, width)
        self.query, self.key, self.score = (
            nn.Linear(width, width, bias_attr=False),
            nn.Linear(2 * width, width, bias_attr=False),
            nn.Linear(width, 1),
        )
        self.head = nn.Linear(width, words)

    def forward(self, words: Tensor) -> tuple[Tensor, Tensor]:
        memory, last = self.encoder(self.source(words))
        state = paddle.tanh(self.bridge(paddle.concat([last[0], last[1]], axis=-1)))
        keys = self.key(memory)
        word = paddle.zeros([words.shape[0]], dtype="int64")
        written, scores = [], []
        for _ in range(self.steps):
            weights = F.softmax(self.score(paddle.tanh(keys + self.query(state).unsqueeze(1))), axis=1)
            context = paddle.sum(weights * memory, axis=1)
            output, state = self.cell(paddle.concat([self.target(word), context], axis=-1), state)
            scored = self.head(output)
            word = paddle.argmax(scored, axis=-1)
            written.append(word)
            scores.append(scored)
        return paddle.stack(written, axis=1), paddle.stack(scores, axis=1)


# --- tables and graphs


class DeepFM(nn.Layer):
    """Products of pairs of embedded fields by the square of their sum, beside an MLP: the odds of a click."""

    def __init__(self, fields: int = 26, dense: int = 13, values: int = 1000, width: int = 16, hidden: tuple[int, ...] = (400, 400, 400)):
        super().__init__()
        self.first, self.embedding = nn.Embedding(fields * values, 1), nn.Embedding(fields * values, width)
        self.dense_first, self.dense = nn.Linear(dense, 1), self.create_parameter([dense, width])
        self.register_buffer("offsets", paddle.arange(fields, dtype="int64") * values, persistable=False)
        sizes = [(fields + dense) * width, *hidden]
        self.mlp = nn.Sequential(
            *[layer for a, b in zip(sizes, sizes[1:]) for layer in (nn.Linear(a, b), nn.ReLU())], nn.Linear(sizes[-1], 1)
        )

    def forward(self, sparse: Tensor, dense: Tensor) -> Tensor:
        ids = sparse + self.offsets
        linear = self.first(ids).sum(axis=1) + self.dense_first(dense)
        vectors = paddle.concat([self.embedding(ids), dense.unsqueeze(-1) * self.dense], axis=1)
        pairs = 0.5 * (paddle.square(vectors.sum(axis=1)) - paddle.square(vectors).sum(axis=1)).sum(axis=1, keepdim=True)
        return F.sigmoid(linear + pairs + self.mlp(vectors.flatten(1)))


class GraphNet(nn.Layer):
    """Three layers of graph convolution: what neighbours hold is gathered along the edges, scaled by degrees, and added up by `scatter`.
    One graph at a time.
    """

    def __init__(self, features: int = 128, width: int = 128, classes: int = 16, layers: int = 3):
        super().__init__()
        sizes = [features, *[width] * (layers - 1), classes]
        self.layers = nn.LayerList([nn.Linear(a, b) for a, b in zip(sizes, sizes[1:])])

    def forward(self, nodes: Tensor, edges: Tensor) -> Tensor:
        x, source, target = nodes.squeeze(0), edges[0, 0], edges[0, 1]
        count = x.shape[0]
        degree = paddle.scatter_nd_add(paddle.ones([count]), target.unsqueeze(-1), paddle.ones_like(target).astype("float32"))
        norm = paddle.rsqrt(degree)
        scale = (paddle.gather(norm, source) * paddle.gather(norm, target)).unsqueeze(-1)
        for i, layer in enumerate(self.layers):
            h = layer(x)
            messages = paddle.gather(h, source) * scale
            x = paddle.scatter_nd_add(h * (norm * norm).unsqueeze(-1), target.unsqueeze(-1), messages)
            if i + 1 < len(self.layers):
                x = F.relu(x)
        return F.log_softmax(x, axis=-1).unsqueeze(0)
