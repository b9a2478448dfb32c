"""Multi-head attention and the encoder, decoder and transformer that are made of it (Vaswani et al., "Attention is all you need", 2017)."""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from polyreme.dtypes import default_dtype
from polyreme.math.creation import full, triu
from polyreme.math.manipulation import concat, reshape, transpose
from polyreme.nn import functional as F
from polyreme.nn.attributes import ParamAttr
from polyreme.nn.container import LayerList
from polyreme.nn.functional.attention import additive_mask, attend, attend_whole, takes_whole
from polyreme.nn.layer import Layer
from polyreme.nn.layers.common import Dropout, Linear
from polyreme.nn.layers.norm import LayerNorm
from polyreme.tensor import Tensor

__all__ = [
    "MultiHeadAttention",
    "Transformer",
    "TransformerDecoder",
    "TransformerDecoderLayer",
    "TransformerEncoder",
    "TransformerEncoderLayer",
]


def _positive(**sizes: int) -> None:
    for name, size in sizes.items():
        if size <= 0:
            raise AssertionError(f"Expected {name} to be greater than 0, but received {size}")


class MultiHeadAttention(Layer):
    """Attention in `num_heads` subspaces of embed_dim / num_heads at once.

    Queries [batch, queries, embed_dim], keys [batch, keys, kdim] and values [batch, keys, vdim] (both by default the queries) are
    projected, attended to by softmax(q kᵀ / sqrt(depth) + mask), with `dropout` on the weights, and projected again: [batch, queries,
    embed_dim]. The mask broadcasts to [batch, heads, queries, keys]: bools and integers say what counts, floats are added. The answer is
    the output, then the weights with `need_weights`, then the cache if one is given.
    """

    class Cache(NamedTuple):
        """Keys and values of the positions so far, [batch, heads, length, depth]; a step adds its own."""

        k: Tensor
        v: Tensor

    class StaticCache(NamedTuple):
        """Keys and values that stay as they are, [batch, heads, length, depth]: those of an encoder's output."""

        k: Tensor
        v: Tensor

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        kdim: int | None = None,
        vdim: int | None = None,
        need_weights: bool = False,
        weight_attr: Any = None,
        bias_attr: Any = None,
    ):
        super().__init__()
        _positive(embed_dim=embed_dim, num_heads=num_heads)
        if embed_dim % num_heads:
            raise AssertionError(f"embed_dim must be divisible by num_heads, but received {embed_dim} and {num_heads}")
        self.embed_dim, self.num_heads, self.head_dim = embed_dim, num_heads, embed_dim // num_heads
        self.kdim = embed_dim if kdim is None else kdim
        self.vdim = embed_dim if vdim is None else vdim
        self.dropout, self.need_weights = dropout, need_weights
        self.q_proj = Linear(embed_dim, embed_dim, weight_attr, bias_attr)
        self.k_proj = Linear(self.kdim, embed_dim, weight_attr, bias_attr)
        self.v_proj = Linear(self.vdim, embed_dim, weight_attr, bias_attr)
        self.out_proj = Linear(embed_dim, embed_dim, weight_attr, bias_attr)

    def _split(self, x: Tensor) -> Tensor:
        """[batch, length, embed_dim] as [batch, length, heads, depth]."""
        return reshape(x, [0, 0, self.num_heads, self.head_dim])

    def _heads(self, x: Tensor) -> Tensor:
        """[batch, length, embed_dim] as [batch, heads, length, depth]."""
        return transpose(self._split(x), [0, 2, 1, 3])

    def compute_kv(self, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """Projected keys and values, [batch, heads, length, depth] each."""
        return self._heads(self.k_proj(key)), self._heads(self.v_proj(value))

    def gen_cache(self, key: Tensor, value: Tensor | None = None, type: Any = Cache) -> Any:
        """A cache for `forward`: of the projected `key` and `value` for a StaticCache; else of `key` and `value` as they are, or, without a
        value, an empty one for the batch that `key` has.
        """
        if type is self.StaticCache:
            assert value is not None, "gen_cache expected a value for a StaticCache but got None"
            return self.StaticCache(*self.compute_kv(key, value))
        if value is not None:
            return self.Cache(key, value)
        shape = [key.shape[0], self.num_heads, 0, self.head_dim]
        return self.Cache(full(shape, 0, key.dtype), full(shape, 0, key.dtype))

    def _whole(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> Tensor | None:
        """The answer where attention is one op: its weights do not exist. None elsewhere."""
        dropout = self.dropout if self.training else 0.0
        if self.need_weights or dropout or not takes_whole() or type(self).compute_kv is not MultiHeadAttention.compute_kv:
            return None
        q, k, v = (self._split(project(x)) for project, x in ((self.q_proj, query), (self.k_proj, key), (self.v_proj, value)))
        mask, factor = additive_mask(mask, q.type.dtype), self.head_dim**-0.5
        out = attend_whole(q, k, v, mask, factor, dropout, False)
        if out is None:
            q, k, v = (transpose(x, [0, 2, 1, 3]) for x in (q, k, v))
            out = transpose(attend(q, k, v, mask, factor, dropout, self.training)[0], [0, 2, 1, 3])
        return self.out_proj(reshape(out, [0, 0, self.embed_dim]))

    def forward(
        self, query: Tensor, key: Tensor | None = None, value: Tensor | None = None, attn_mask: Tensor | None = None, cache: Any = None
    ) -> Any:
        key = query if key is None else key
        value = query if value is None else value
        if cache is None and (whole := self._whole(query, key, value, attn_mask)) is not None:
            return whole
        q = self._heads(self.q_proj(query))
        k, v = (cache.k, cache.v) if isinstance(cache, self.StaticCache) else self.compute_kv(key, value)
        if isinstance(cache, self.Cache):
            k, v = concat([cache.k, k], axis=2), concat([cache.v, v], axis=2)
            cache = self.Cache(k, v)
        out, weights = attend(q, k, v, additive_mask(attn_mask, q.type.dtype), self.head_dim**-0.5, self.dropout, self.training)
        out = self.out_proj(reshape(transpose(out, [0, 2, 1, 3]), [0, 0, self.embed_dim]))
        answer = [out, *([weights] if self.need_weights else []), *([cache] if cache is not None else [])]
        return out if len(answer) == 1 else tuple(answer)


def _per_part(attr: Any, parts: int) -> list[Any]:
    """One attribute of parameters per part of a layer; a named one gets the part's number behind its name."""
    if isinstance(attr, (list, tuple)):
        if len(attr) != parts:
            raise AssertionError(f"length of param_attr should be {parts} when it is a list/tuple, but received {len(attr)}")
        return [ParamAttr.to_attr(a) for a in attr]
    attr = ParamAttr.to_attr(attr)
    if attr is False:
        return [False] * parts
    copies = [copy.deepcopy(attr) for _ in range(parts)]
    for i, made in enumerate(copies):
        made.name = f"{made.name}_{i}" if made.name else made.name
    return copies


class _Block(Layer):
    """A layer of an encoder or decoder: attentions, then two linear maps; around each a residual sum, a dropout and a layer norm, before it
    or after it.
    """

    attentions: Sequence[str] = ()

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int,
        dropout: float = 0.1,
        activation: str = "relu",
        attn_dropout: float | None = None,
        act_dropout: float | None = None,
        normalize_before: bool = False,
        weight_attr: Any = None,
        bias_attr: Any = None,
        layer_norm_eps: float = 1e-5,
    ):
        super().__init__()
        # By which stacks make more layers like this one.
        self._config = {
            "d_model": d_model, "nhead": nhead, "dim_feedforward": dim_feedforward, "dropout": dropout, "activation": activation,
            "attn_dropout": attn_dropout,
            "act_dropout": act_dropout, "normalize_before": normalize_before, "weight_attr": weight_attr, "bias_attr": bias_attr,
            "layer_norm_eps": layer_norm_eps,
        }  # fmt: skip
        _positive(d_model=d_model, nhead=nhead, dim_feedforward=dim_feedforward)
        self.normalize_before = normalize_before
        parts = len(self.attentions) + 1
        weights, biases = _per_part(weight_attr, parts), _per_part(bias_attr, parts)
        for name, weight, bias in zip(self.attentions, weights, biases, strict=False):
            rate = dropout if attn_dropout is None else attn_dropout
            setattr(self, name, MultiHeadAttention(d_model, nhead, rate, weight_attr=weight, bias_attr=bias))
        self.linear1 = Linear(d_model, dim_feedforward, weights[-1], biases[-1])
        self.dropout = Dropout(dropout if act_dropout is None else act_dropout)
        self.linear2 = Linear(dim_feedforward, d_model, weights[-1], biases[-1])
        for i in range(parts):
            setattr(self, f"norm{i + 1}", LayerNorm(d_model, layer_norm_eps))
        for i in range(parts):
            setattr(self, f"dropout{i + 1}", Dropout(dropout))
        self.activation = getattr(F, activation)

    def _normed_first(self, part: int, x: Tensor) -> Tensor:
        """What goes into part number `part`, counted from 1."""
        return getattr(self, f"norm{part}")(x) if self.normalize_before else x

    def _normed_last(self, part: int, x: Tensor, made: Tensor) -> Tensor:
        """What comes after it, from what was before it and what it made of that."""
        x = x + getattr(self, f"dropout{part}")(made)
        return x if self.normalize_before else getattr(self, f"norm{part}")(x)

    def _feed_forward(self, x: Tensor) -> Tensor:
        part = len(self.attentions) + 1
        made = self.linear2(self.dropout(self.activation(self.linear1(self._normed_first(part, x)))))
        return self._normed_last(part, x, made)


class TransformerEncoderLayer(_Block):
    """Self-attention and two linear maps of `src` [batch, length, d_model], each with dropout, residual sum and layer norm, before it with
    `normalize_before`.

    With a `cache` from `gen_cache` positions are added to those seen before, and the answer is (output, new cache).
    """

    attentions = ("self_attn",)
    self_attn: MultiHeadAttention

    def forward(self, src: Tensor, src_mask: Tensor | None = None, cache: Any = None) -> Any:
        mask = additive_mask(src_mask, src.type.dtype)
        x = self._normed_first(1, src)
        made = self.self_attn(x, x, x, mask, cache)
        if cache is not None:
            made, cache = made
        out = self._feed_forward(self._normed_last(1, src, made))
        return out if cache is None else (out, cache)

    def gen_cache(self, src: Tensor) -> Any:
        """An empty cache for the batch that `src` has."""
        return self.self_attn.gen_cache(src)


class TransformerDecoderLayer(_Block):
    """Self-attention, attention to an encoder's output `memory` and two linear maps of `tgt` [batch, length, d_model], each with dropout,
    residual sum and norm.

    With a `cache` from `gen_cache`, (Cache, StaticCache), the answer is (output, new cache).
    """

    attentions = ("self_attn", "cross_attn")
    self_attn: MultiHeadAttention
    cross_attn: MultiHeadAttention

    def forward(
        self, tgt: Tensor, memory: Tensor, tgt_mask: Tensor | None = None, memory_mask: Tensor | None = None, cache: Any = None
    ) -> Any:
        tgt_mask = additive_mask(tgt_mask, tgt.type.dtype)
        memory_mask = additive_mask(memory_mask, memory.type.dtype)
        own, other = (None, None) if cache is None else cache
        x = self._normed_first(1, tgt)
        made = self.self_attn(x, x, x, tgt_mask, own)
        if cache is not None:
            made, own = made
        tgt = self._normed_last(1, tgt, made)
        made = self.cross_attn(self._normed_first(2, tgt), memory, memory, memory_mask, other)
        if cache is not None:
            made, other = made
        out = self._feed_forward(self._normed_last(2, tgt, made))
        return out if cache is None else (out, (own, other))

    def gen_cache(self, memory: Tensor) -> tuple[Any, Any]:
        """An empty cache of what is decoded, and the keys and values of `memory`."""
        return self.self_attn.gen_cache(memory), self.cross_attn.gen_cache(memory, memory, type=self.cross_attn.StaticCache)


class _Stack(Layer):
    """`num_layers` layers, the first of them `layer` itself and the others made with its arguments, and a norm after the last."""

    def __init__(self, layer: Any, num_layers: int, norm: Any):
        super().__init__()
        self.layers = LayerList([layer if i == 0 else type(layer)(**layer._config) for i in range(num_layers)])
        self.num_layers = num_layers
        self.norm = norm

    def _run(self, x: Tensor, cache: Any, *inputs: Any) -> Any:
        """All layers on x; `inputs` and its own part of the cache go to each of them."""
        caches = []
        for i, layer in enumerate(self.layers):
            if cache is None:
                x = layer(x, *inputs)
            else:
                x, made = layer(x, *inputs, cache=cache[i])
                caches.append(made)
        if self.norm is not None:
            x = self.norm(x)
        return x if cache is None else (x, caches)


class TransformerEncoder(_Stack):
    """`num_layers` encoder layers one after the other, and `norm` after them. With a list of caches the answer is (output, new caches)."""

    def __init__(self, encoder_layer: TransformerEncoderLayer, num_layers: int, norm: Any = None):
        super().__init__(encoder_layer, num_layers, norm)

    def forward(self, src: Tensor, src_mask: Tensor | None = None, cache: Any = None) -> Any:
        return self._run(src, cache, additive_mask(src_mask, src.type.dtype))

    def gen_cache(self, src: Tensor) -> list[Any]:
        """An empty cache per layer."""
        return [layer.gen_cache(src) for layer in self.layers]


class TransformerDecoder(_Stack):
    """`num_layers` decoder layers one after the other, and `norm` after them. With a list of caches the answer is (output, new caches)."""

    def __init__(self, decoder_layer: TransformerDecoderLayer, num_layers: int, norm: Any = None):
        super().__init__(decoder_layer, num_layers, norm)

    def forward(
        self, tgt: Tensor, memory: Tensor, tgt_mask: Tensor | None = None, memory_mask: Tensor | None = None, cache: Any = None
    ) -> Any:
        return self._run(tgt, cache, memory, additive_mask(tgt_mask, tgt.type.dtype), additive_mask(memory_mask, memory.type.dtype))

    def gen_cache(self, memory: Tensor, do_zip: bool = False) -> list[Any]:
        """A pair of caches per layer; with `do_zip` the first ones of all layers, then the second ones."""
        caches = [layer.gen_cache(memory) for layer in self.layers]
        return list(zip(*caches, strict=True)) if do_zip else caches


def _for_both(attr: Any, name: str) -> tuple[Any, Any]:
    """What encoder layers and decoder layers get of an attribute for (self-attention, cross-attention, linear maps), of which two or one
    may stand for all.
    """
    if not isinstance(attr, (list, tuple)):
        return attr, attr
    if not 1 <= len(attr) <= 3:
        raise AssertionError(f"length of {name} should be 1 or 2 or 3 when it is a list/tuple, but received {len(attr)}")
    first, last = attr[0], attr[-1]
    return [first, last], [first, attr[1] if len(attr) == 3 else first, last]


class Transformer(Layer):
    """An encoder and a decoder of 6 layers each, with a layer norm after each; embeddings and the last linear map are the caller's.

    Attributes of parameters may be lists of one to three, for self-attention, attention to the encoder's output and the linear maps.
    """

    def __init__(
        self,
        d_model: int = 512,
        nhead: int = 8,
        num_encoder_layers: int = 6,
        num_decoder_layers: int = 6,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: str = "relu",
        attn_dropout: float | None = None,
        act_dropout: float | None = None,
        normalize_before: bool = False,
        weight_attr: Any = None,
        bias_attr: Any = None,
        custom_encoder: Any = None,
        custom_decoder: Any = None,
    ):
        super().__init__()
        _positive(d_model=d_model, nhead=nhead, dim_feedforward=dim_feedforward)
        shared = (d_model, nhead, dim_feedforward, dropout, activation, attn_dropout, act_dropout, normalize_before)
        weights, biases = _for_both(weight_attr, "weight_attr"), _for_both(bias_attr, "bias_attr")
        if custom_encoder is None:
            encoder_layer = TransformerEncoderLayer(*shared, weights[0], biases[0])
            custom_encoder = TransformerEncoder(encoder_layer, num_encoder_layers, LayerNorm(d_model))
        self.encoder = custom_encoder
        if custom_decoder is None:
            decoder_layer = TransformerDecoderLayer(*shared, weights[1], biases[1])
            custom_decoder = TransformerDecoder(decoder_layer, num_decoder_layers, LayerNorm(d_model))
        self.decoder = custom_decoder
        self.d_model, self.nhead = d_model, nhead

    def forward(
        self,
        src: Tensor,
        tgt: Tensor,
        src_mask: Tensor | None = None,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
    ) -> Any:
        """The decoder's output [batch, target length, d_model] for `src` [batch, source length, d_model] and `tgt` [batch, target length,
        d_model].
        """
        memory = self.encoder(src, src_mask=additive_mask(src_mask, src.type.dtype))
        masks = additive_mask(tgt_mask, tgt.type.dtype), additive_mask(memory_mask, memory.type.dtype)
        return self.decoder(tgt, memory, tgt_mask=masks[0], memory_mask=masks[1])

    def generate_square_subsequent_mask(self, length: Any) -> Tensor:
        """[length, length]: -inf above the diagonal and 0 elsewhere, so that positions see themselves and those before them."""
        return triu(full([length, length], -math.inf, default_dtype()), 1)
