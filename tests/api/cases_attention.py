"""Attention, and the layers of transformers."""

from tests.api.table import FLOATS, array, bools, cases, check, ints, normal, of

F = "paddle.nn.functional"
LOWER = [[True, False, False], [True, True, False], [True, True, True]]


@cases(f"{F}.scaled_dot_product_attention")
def _(c):
    for dtype in FLOATS:
        c(normal(2, 3, 2, 4, dtype=dtype), normal(2, 5, 2, 4, dtype=dtype), normal(2, 5, 2, 4, dtype=dtype))
    c(normal(2, 3, 2, 4), normal(2, 3, 2, 4), normal(2, 3, 2, 4), None, 0.0, True)
    c(normal(2, 2, 1, 4), normal(2, 5, 1, 4), normal(2, 5, 1, 4), is_causal=True, scale=0.3)
    c(normal(2, 3, 2, 4), normal(2, 3, 2, 4), normal(2, 3, 2, 4), array(LOWER, "bool"))
    c(normal(2, 3, 2, 4), normal(2, 3, 2, 4), normal(2, 3, 2, 4), normal(2, 1, 3, 3).fixed())
    c(normal(1, 3, 6, 4), normal(1, 3, 2, 4), normal(1, 3, 2, 4))
    c(normal(3, 2, 4), normal(3, 2, 4), normal(3, 2, 4))
    c(normal(2, 3, 2, 4), normal(2, 3, 2, 4), normal(2, 3, 2, 4), dropout_p=0.5, training=False)
    c(normal(1, 3, 2, 4).strided(), normal(1, 3, 2, 4), normal(1, 3, 2, 4).strided())
    c(normal(0, 3, 2, 4), normal(0, 3, 2, 4), normal(0, 3, 2, 4))
    c(normal(1, 3, 2, 4), normal(1, 3, 2, 4), normal(1, 3, 2, 4), _second=True)
    c(normal(1, 3, 3, 4), normal(1, 3, 2, 4), normal(1, 3, 2, 4), _raises=True)
    c(normal(1, 3, 4, 4), normal(1, 3, 2, 4), normal(1, 3, 2, 4), enable_gqa=False, _raises=True)


@cases("paddle.nn.MultiHeadAttention")
def _(c):
    c.layer(6, 2)(normal(2, 3, 6))
    c.layer(6, 2, _default="float64")(normal(2, 3, 6, dtype="float64"))
    c.layer(6, 3, 0.0, 5, 4)(normal(2, 3, 6), normal(2, 2, 5), normal(2, 2, 4))
    c.layer(6, 2, 0.3, need_weights=True)(normal(2, 3, 6), None, None, bools(2, 1, 3, 3))
    c.layer(4, 1, bias_attr=False)(normal(1, 3, 4), attn_mask=ints(3, 3, high=2))
    c.layer(4, 2, weight_attr=of("paddle.nn.initializer.Constant(0.5)"))(normal(1, 3, 4), attn_mask=normal(1, 2, 3, 3).fixed())
    c.layer(4, 2)(normal(3, 1, 4).strided().fixed())
    c(5, 2, _raises=True)
    c(0, 2, _raises=True)


@check("paddle.nn.MultiHeadAttention")
def caches_of_attention_grow_step_by_step(paddle, np, rng):
    layer = paddle.nn.MultiHeadAttention(6, 2, need_weights=True)
    steps = [paddle.to_tensor(rng.standard_normal((2, 1, 6)).astype("float32")) for _ in range(3)]
    memory = paddle.to_tensor(rng.standard_normal((2, 4, 6)).astype("float32"))
    cache, found = layer.gen_cache(memory), []
    found.append([list(cache.k.shape), str(cache.v.dtype), type(cache).__name__])
    for step in steps:
        out, weights, cache = layer(step, step, step, None, cache)
        found += [out, weights, cache.k]
    static = layer.gen_cache(memory, memory, layer.StaticCache)
    out, weights, same = layer(steps[0], memory, memory, None, static)
    given = layer.gen_cache(static.k, static.v)
    return {
        "steps": found,
        "static": [out, weights, static.k, static.v, same is static],
        "given": [type(given).__name__, given.k is static.k],
    }


@cases("paddle.nn.TransformerEncoderLayer")
def _(c):
    c.layer(6, 2, 8)(normal(2, 3, 6))
    c.layer(6, 2, 8, 0.0, "gelu", normalize_before=True)(normal(2, 3, 6), bools(3, 3))
    c.layer(4, 1, 5, 0.2, attn_dropout=0.0, act_dropout=0.5, layer_norm_eps=1e-3)(normal(1, 3, 4))
    c.layer(
        4, 2, 5, 0.0, weight_attr=of("[paddle.nn.initializer.Constant(0.1), paddle.ParamAttr(learning_rate=0.5)]"), bias_attr=[False, True]
    )(normal(1, 3, 4))
    c.layer(4, 2, 5, bias_attr=False)
    c.layer(4, 2, 5, weight_attr=of("paddle.nn.initializer.Normal(0.0, 0.1)"))
    c(4, 2, 5, weight_attr=[None], _raises=True)
    c(4, 2, 0, _raises=True)


@cases("paddle.nn.TransformerDecoderLayer")
def _(c):
    c.layer(6, 2, 8)(normal(2, 3, 6), normal(2, 4, 6))
    c.layer(6, 2, 8, 0.0, normalize_before=True)(normal(2, 3, 6), normal(2, 4, 6), array(LOWER, "bool"), ints(2, 1, 1, 4, high=2))
    c.layer(4, 2, 5, 0.1, "tanh", 0.2, 0.0, bias_attr=[False, None, False])(normal(1, 3, 4), normal(1, 2, 4))
    c(4, 2, 5, bias_attr=[None, None], _raises=True)


@cases("paddle.nn.TransformerEncoder")
def _(c):
    layer = of("paddle.nn.TransformerEncoderLayer(4, 2, 5, 0.1)")
    c.layer(layer, 2)(normal(2, 3, 4), bools(2, 1, 3, 3))
    c.layer(of("paddle.nn.TransformerEncoderLayer(4, 2, 5, 0.0, normalize_before=True)"), 2, of("paddle.nn.LayerNorm(4)"))(normal(2, 3, 4))


@cases("paddle.nn.TransformerDecoder")
def _(c):
    c.layer(of("paddle.nn.TransformerDecoderLayer(4, 2, 5, 0.1)"), 2)(normal(2, 3, 4), normal(2, 2, 4), array(LOWER, "bool"))
    c.layer(of("paddle.nn.TransformerDecoderLayer(4, 2, 5, 0.0)"), 1, of("paddle.nn.LayerNorm(4)"))(normal(2, 3, 4), normal(2, 2, 4))


def _incremental(paddle, rng, model, memory=None):
    """Outputs of three steps with caches, and all at once with a mask."""
    model.eval()
    x = paddle.to_tensor(rng.standard_normal((2, 3, 4)).astype("float32"))
    inputs = [] if memory is None else [memory]
    cache, steps = model.gen_cache(x if memory is None else memory), []
    for i in range(3):
        step = x[:, i : i + 1]
        out, cache = model(step, *inputs, cache=cache)
        steps.append(out)
    mask = paddle.to_tensor([[True, False, False], [True, True, False], [True, True, True]])
    whole = model(x, *inputs, mask)
    return {"steps": steps, "whole": whole, "equal": bool(paddle.allclose(paddle.concat(steps, 1), whole, atol=1e-5))}


@check("paddle.nn.TransformerEncoder", "paddle.nn.TransformerEncoderLayer")
def an_encoder_with_caches_gives_what_it_gives_at_once(paddle, np, rng):
    return _incremental(paddle, rng, paddle.nn.TransformerEncoder(paddle.nn.TransformerEncoderLayer(4, 2, 5), 2))


@check("paddle.nn.TransformerDecoder", "paddle.nn.TransformerDecoderLayer")
def a_decoder_with_caches_gives_what_it_gives_at_once(paddle, np, rng):
    model = paddle.nn.TransformerDecoder(paddle.nn.TransformerDecoderLayer(4, 2, 5), 2)
    memory = paddle.to_tensor(rng.standard_normal((2, 5, 4)).astype("float32"))
    zipped = model.gen_cache(memory, do_zip=True)
    shapes = [[[type(c).__name__, list(c.k.shape)] for c in group] for group in zipped]
    return {"shapes": shapes, **_incremental(paddle, rng, model, memory)}


@cases("paddle.nn.Transformer")
def _(c):
    mask = array(LOWER, "bool")
    c.layer(4, 2, 1, 1, 6)(normal(2, 3, 4), normal(2, 3, 4), None, mask, None, _atol=1e-4)
    c.layer(4, 2, 2, 1, 6, 0.0, "gelu", normalize_before=True)(
        normal(2, 2, 4), normal(2, 3, 4), normal(2, 2, 2, 2).fixed(), mask, ints(2, 1, 1, 2, high=2)
    )
    c.layer(
        4,
        2,
        1,
        1,
        6,
        0.0,
        weight_attr=of("[paddle.nn.initializer.Constant(0.1), paddle.nn.initializer.Constant(0.2), None]"),
        bias_attr=[None, False],
    )(normal(2, 2, 4), normal(2, 3, 4))
    c.layer(4, 2, 1, 1, 6, 0.0, weight_attr=of("[paddle.nn.initializer.Constant(0.1)]"))(normal(2, 2, 4), normal(2, 3, 4))
    c(4, 2, 1, 1, 6, weight_attr=[None] * 4, _raises=True)
    c(4, 0, _raises=True)


@check("paddle.nn.Transformer")
def transformers_take_other_encoders_and_make_masks(paddle, np, rng):
    model = paddle.nn.Transformer(
        4, 2, 1, 1, 6, 0.0, custom_encoder=paddle.nn.TransformerEncoder(paddle.nn.TransformerEncoderLayer(4, 1, 3, 0.0), 1)
    )
    mask = model.generate_square_subsequent_mask(3)
    x = paddle.to_tensor(rng.standard_normal((2, 3, 4)).astype("float32"))
    return {"mask": mask, "out": model(x, x, mask, mask, mask), "keys": list(model.state_dict())}


@check("paddle.nn.TransformerEncoderLayer", "paddle.nn.TransformerDecoderLayer", "paddle.nn.Transformer")
def transformers_print_their_parts_in_order(paddle, np, rng):
    return [
        repr(layer).replace(", inplace=False", "")
        for layer in (paddle.nn.Transformer(4, 2, 2, 1, 6), paddle.nn.TransformerDecoderLayer(4, 1, 3, 0.5, "gelu"))
    ]
