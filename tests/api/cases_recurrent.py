"""Recurrent cells and layers, and decoding."""

from tests.api.table import array, cases, caught, check, ints, normal

CELLS = ("SimpleRNNCell", "LSTMCell", "GRUCell")
LAYERS = ("SimpleRNN", "LSTM", "GRU")
LENGTHS = array([5, 2, 0], "int64")


def states_for(layer, *shape):
    """A state, or a pair of them for LSTMs."""
    return (normal(*shape), normal(*shape, scale=0.5)) if layer.startswith("LSTM") else normal(*shape)


def register_cell(name):
    @cases(f"paddle.nn.{name}")
    def _(c):
        c.layer(3, 4)(normal(2, 3), states_for(name, 2, 4))
        c.layer(3, 4)(normal(2, 3))
        c.layer(1, 1)(normal(1, 1), states_for(name, 1, 1))
        c.layer(5, 3, weight_ih_attr=False, bias_hh_attr=False)(normal(3, 5))
        c.layer(5, 3, weight_hh_attr=False, bias_ih_attr=False)(normal(3, 5).strided(), states_for(name, 3, 3))
        c.layer(3, 0)(_raises=True)
        c.layer(3, 4)(normal(2, 7), _raises=True)

    @check(f"paddle.nn.{name}", traits=("float64",))
    def in_float64(paddle, np, rng):
        paddle.set_default_dtype("float64")
        cell = getattr(paddle.nn, name)(3, 4)
        paddle.set_default_dtype("float32")
        x = paddle.to_tensor(rng.standard_normal((2, 3)), stop_gradient=False)
        h, after = cell(x, cell.get_initial_states(x, dtype="float64", init_value=0.5))
        h.sum().backward()
        return {"h": h, "after": after, "weight": cell.weight_ih, "grad": [x.grad, cell.weight_hh.grad, cell.bias_ih.grad]}

    @check("paddle.nn.RNN", "paddle.nn.RNNCellBase")
    def gradients_of_gradients(paddle, np, rng):
        layer = paddle.nn.RNN(getattr(paddle.nn, name)(2, 3))
        x = paddle.to_tensor(rng.standard_normal((2, 4, 2)).astype("float32"), stop_gradient=False)
        y, _ = layer(x)
        (first,) = paddle.grad(y.sum(), x, create_graph=True)
        (first * first).sum().backward()
        return {"y": y, "grad": [first, x.grad, layer.cell.weight_hh.grad]}


def register_layer(name):
    @cases(f"paddle.nn.{name}")
    def _(c):
        c.layer(3, 4)(normal(2, 5, 3))
        c.layer(3, 4)(normal(2, 5, 3), states_for(name, 1, 2, 4))
        c.layer(3, 4, 2, direction="bidirect")(normal(3, 5, 3), states_for(name, 4, 3, 4), LENGTHS)
        c.layer(3, 4, 3, direction="bidirectional", time_major=True)(normal(5, 3, 3), sequence_length=LENGTHS)
        c.layer(3, 5, num_layers=3)(normal(3, 7, 3).strided(), sequence_length=array([7, 1, 4], "int32"))
        c.layer(3, 4, 3, dropout=0.5)(normal(2, 5, 3))
        c.layer(3, 4, 2, direction="bidirect", dropout=0.3, time_major=True)(normal(2, 5, 3))
        c.layer(3, 4, 2, dropout=1.0)(normal(2, 3, 3))
        c.layer(1, 1)(normal(1, 1, 1))
        c.layer(2, 3, bias_ih_attr=False)()  # Paddle's kernel crashes on a bias that is not trained
        c.layer(2, 3, 2, bias_hh_attr=False, weight_hh_attr=False)()
        c.layer(3, 4, direction="backward")(_raises=True)
        c.layer(3, 4)(normal(2, 5), _raises=True)
        c.layer(3, 4)(normal(2, 5, 7), _raises=True)
        c.layer(3, 4)(normal(2, 5, 3), states_for(name, 2, 2, 4), _raises=True)
        c.layer(3, 4)(normal(2, 5, 3), sequence_length=array([1.0, 2.0]), _raises=True)
        c.layer(3, 4)(normal(2, 5, 3), sequence_length=array([3], "int64"), _raises=True)

    @check(f"paddle.nn.{name}", traits=("float64",))
    def in_float64(paddle, np, rng):
        paddle.set_default_dtype("float64")
        layer = getattr(paddle.nn, name)(3, 4, 2, "bidirect", dropout=0.5)
        paddle.set_default_dtype("float32")
        x = paddle.to_tensor(rng.standard_normal((2, 5, 3)), stop_gradient=False)
        y, last = layer(x, None, paddle.to_tensor([5, 3]))
        weight = paddle.to_tensor(rng.standard_normal(y.shape))
        (y * weight).sum().backward()
        return {"y": y, "last": last, "next draw": paddle.rand([2]), "grad": [x.grad, *(p.grad for p in layer.parameters())]}

    @check(f"paddle.nn.{name}")
    def last_states_alone_have_gradients(paddle, np, rng):
        layer = getattr(paddle.nn, name)(3, 4, 2, "bidirect")
        x = paddle.to_tensor(rng.standard_normal((2, 5, 3)).astype("float32"), stop_gradient=False)
        _, last = layer(x, sequence_length=paddle.to_tensor([5, 3]))
        for state in last if isinstance(last, tuple) else [last]:
            (state * state).sum().backward(retain_graph=True)
        return {"last": last, "grad": [x.grad, *(p.grad for p in layer.parameters())]}

    @check(f"paddle.nn.{name}")
    def it_learns(paddle, np, rng):
        layer = getattr(paddle.nn, name)(3, 4)
        step = paddle.optimizer.SGD(0.1, parameters=layer.parameters())
        x = paddle.to_tensor(rng.standard_normal((2, 5, 3)).astype("float32"))
        losses = []
        for _ in range(3):
            loss = (layer(x)[0] - 0.5).square().mean()
            loss.backward()
            step.step()
            step.clear_grad()
            losses.append(float(loss))
        return {"losses": losses, "state": layer.state_dict(), "count": len(layer), "name": layer.full_name()}


for _name in CELLS:
    register_cell(_name)
for _name in LAYERS:
    register_layer(_name)


@cases("paddle.nn.SimpleRNN")
def _(c):
    c.layer(3, 4, 2, activation="relu", time_major=True)(normal(2, 5, 3))
    c.layer(3, 4, activation="relu", direction="bidirect")(normal(3, 5, 3), sequence_length=LENGTHS)
    c.layer(3, 4, activation="sigmoid")(_raises=True)


@cases("paddle.nn.SimpleRNNCell")
def _(c):
    c.layer(3, 4, "relu")(normal(2, 3), normal(2, 4))
    c.layer(3, 4, activation="gelu")(_raises=True)


@cases("paddle.nn.LSTM")
def _(c):
    c.layer(3, 4, proj_size=2)(normal(2, 5, 3))
    c.layer(3, 4, 2, "bidirect", proj_size=2)(normal(3, 5, 3), (normal(4, 3, 2), normal(4, 3, 4)), LENGTHS)
    c.layer(3, 4, 2, dropout=0.5, proj_size=3, time_major=True)(normal(2, 5, 3))
    c.layer(3, 4, proj_size=4)(_raises=True)
    c.layer(3, 4)(normal(2, 5, 3), (normal(1, 2, 4),), _raises=True)


@cases("paddle.nn.LSTMCell")
def _(c):
    c.layer(3, 4, proj_size=2)(normal(2, 3), (normal(2, 2), normal(2, 4)))
    c.layer(3, 4, proj_size=-1)(_raises=True)


@check("paddle.nn.RNNCellBase")
def first_states_have_the_shapes_of_the_cell(paddle, np, rng):
    lstm, gru, x = paddle.nn.LSTMCell(3, 4), paddle.nn.GRUCell(3, 4), paddle.ones([2, 5, 3])
    return {
        "lstm": lstm.get_initial_states(x), "gru": gru.get_initial_states(x, init_value=2.0),
        "second axis": gru.get_initial_states(x, batch_dim_idx=1),
        "shape": gru.get_initial_states(x, shape=[7, 2], dtype="float64"), "minus one": gru.get_initial_states(x, shape=[-1, 2]),
        "several": gru.get_initial_states((x, x), shape=([7], [3]), dtype=["int32", "float32"]),
        "shapes": [lstm.state_shape, gru.state_shape], "bare": caught(lambda: paddle.nn.RNNCellBase().get_initial_states(x)),
        "no shape": caught(lambda: paddle.nn.RNNCellBase().state_shape), "no dtype": caught(lambda: gru.state_dtype),
    }  # fmt: skip


class _Own:
    """A cell with nested states and outputs of its own."""

    def __new__(cls, paddle):
        class Cell(paddle.nn.RNNCellBase):
            def __init__(self):
                super().__init__()
                self.line = paddle.nn.Linear(3, 3)
                self.input_size = 3

            def forward(self, inputs, states, factor=1.0):
                count, (held,) = states
                held = paddle.tanh(self.line(inputs) + held) * factor
                return (held, count), (count + 1, (held,))

            @property
            def state_shape(self):
                return ((1,), ((3,),))

        return Cell()


@check("paddle.nn.RNN", "paddle.nn.RNNCellBase")
def cells_of_ones_own_run(paddle, np, rng):
    layer = paddle.nn.RNN(_Own(paddle), time_major=True)
    x = paddle.to_tensor(rng.standard_normal((4, 2, 3)).astype("float32"), stop_gradient=False)
    first = (paddle.zeros([2, 1]), (paddle.ones([2, 3]),))
    y, last = layer(x, first, paddle.to_tensor([4, 2]), factor=0.5)
    y[0].sum().backward()
    return {"y": y, "last": last, "grad": [x.grad, layer.cell.line.weight.grad], "repr": repr(layer)}


@cases("paddle.nn.RNN")
def _(c):
    c.expr("paddle.nn.RNN(paddle.nn.GRUCell(3, 4))(x)", x=normal(2, 5, 3))
    c.expr("paddle.nn.RNN(paddle.nn.LSTMCell(3, 4), is_reverse=True)(x, None, n)", x=normal(3, 5, 3), n=LENGTHS)
    c.expr("paddle.nn.RNN(paddle.nn.SimpleRNNCell(3, 4), time_major=True)(x, s, n)", x=normal(5, 3, 3), s=normal(3, 4), n=LENGTHS)
    c.expr("repr(paddle.nn.RNN(paddle.nn.SimpleRNNCell(3, 4, 'relu'), True))")
    c.expr("list(paddle.nn.RNN(paddle.nn.SimpleRNNCell(3, 4)).state_dict())")


@cases("paddle.nn.BiRNN")
def _(c):
    c.expr("paddle.nn.BiRNN(paddle.nn.LSTMCell(3, 4), paddle.nn.LSTMCell(3, 4))(x, None, n)", x=normal(3, 5, 3), n=LENGTHS)
    c.expr("paddle.nn.BiRNN(paddle.nn.GRUCell(3, 4), paddle.nn.GRUCell(3, 4), True)(x, (s, s * 2))", x=normal(5, 2, 3), s=normal(2, 4))
    c.expr("repr(paddle.nn.BiRNN(paddle.nn.LSTMCell(3, 4), paddle.nn.GRUCell(3, 4)))")
    c.expr("list(paddle.nn.BiRNN(paddle.nn.LSTMCell(3, 4), paddle.nn.GRUCell(3, 4)).state_dict())")
    c.expr("paddle.nn.BiRNN(paddle.nn.GRUCell(3, 4), paddle.nn.GRUCell(2, 4))", _raises=True)
    c.expr("paddle.nn.BiRNN(paddle.nn.GRUCell(3, 4), paddle.nn.GRUCell(3, 4))(x, (s,))", x=normal(2, 5, 3), s=normal(2, 4), _raises=True)


# --- decoding


@cases("paddle.nn.functional.gather_tree")
def _(c):
    c(
        array([[[2, 2], [6, 1]], [[3, 9], [6, 1]], [[0, 1], [9, 0]]], "int64"),
        array([[[0, 0], [1, 1]], [[1, 0], [1, 0]], [[0, 0], [0, 1]]], "int64"),
        _forms=False,
    )
    c(ints(7, 3, 5, high=100), ints(7, 3, 5, high=5))
    c(ints(7, 3, 5, high=100, dtype="int32"), ints(7, 3, 5, high=5, dtype="int32"))
    c(ints(1, 2, 3), ints(1, 2, 3, high=3))
    c(ints(3, 0, 2), ints(3, 0, 2, high=2))
    c(ints(2, 1, 1), ints(2, 1, 1, high=1))
    c(ints(2, 2), ints(2, 2), _raises=True)
    c(ints(2, 2, 2), ints(2, 2, 1, high=1), _raises=True)
    c(array([[[1, 2]], [[3, 4]]], "int64"), array([[[0, 0]], [[0, 5]]], "int64"), _raises=True)
    c(ints(2, 2, 2), ints(2, 2, 2, high=2, dtype="int32"), _raises=True)


@cases("paddle.nn.functional.sequence_mask")
def _(c):
    c(array([3, 0, 5], "int64"), _forms=False)
    c(array([[1, 2], [4, 0]], "int64"), 3, "float32")
    c(array([1, 2], "int32"), maxlen=4, dtype="bool")
    c(array(2, "int64"), maxlen=3)


def translator(paddle, kind="GRUCell", words=7, size=4):
    """A cell, what makes inputs of words, and what makes scores."""
    cell = getattr(paddle.nn, kind)(size, size)
    return cell, paddle.nn.Embedding(words, size), paddle.nn.Linear(size, words)


def register_decoding(kind, beams, **options):
    @check("paddle.nn.dynamic_decode", "paddle.nn.BeamSearchDecoder", traits=("float32", "odd"))
    def beams_are_searched(paddle, np, rng):
        cell, embed, score = translator(paddle, kind)
        decoder = paddle.nn.BeamSearchDecoder(cell, start_token=0, end_token=1, beam_size=beams, embedding_fn=embed, output_fn=score)
        first = cell.get_initial_states(paddle.ones([3, 4]), init_value=0.3)
        found = paddle.nn.dynamic_decode(decoder, inits=first, max_step_num=6, **options)
        return {"count": len(found), "ids": found[0], "states": list(found[1]), "lengths": found[2:], "kind": type(found[1]).__name__}

    # One function for all of them, with texts of their own.
    return beams_are_searched


for _kind, _beams, _options in [
    ("GRUCell", 3, {}), ("LSTMCell", 2, {"return_length": True}), ("SimpleRNNCell", 1, {"output_time_major": True}),
    ("GRUCell", 4, {"output_time_major": True, "return_length": True, "is_test": True, "impute_finished": True}),
]:  # fmt: skip
    register_decoding(_kind, _beams, **_options)


@check("paddle.nn.BeamSearchDecoder")
def parts_of_a_beam_search(paddle, np, rng):
    cell, embed, score = translator(paddle)
    decoder = paddle.nn.BeamSearchDecoder(cell, 0, 1, 3, embed, score)
    x = paddle.to_tensor(rng.standard_normal((2, 4)).astype("float32"))
    inputs, states, finished = decoder.initialize(x)
    outputs, after, following, over = decoder.step(paddle.zeros([1], "int64"), inputs, states)
    return {
        "tiled": decoder.tile_beam_merge_with_batch(paddle.to_tensor(rng.standard_normal((2, 3, 4)).astype("float32")), 3),
        "inputs": inputs, "states": list(states),
        "finished": finished, "outputs": list(outputs), "fields": [outputs._fields, after._fields], "after": list(after),
        "following": following, "over": over,
        "own": decoder.tracks_own_finished, "attributes": [decoder.start_token, decoder.end_token, decoder.beam_size],
    }  # fmt: skip


@check("paddle.nn.BeamSearchDecoder")
def finished_beams_stay_as_they_are(paddle, np, rng):
    """A step after which some beams are finished: their sequences go on with the end token at no cost."""
    cell = lambda inputs, states: (states, states)
    decoder = paddle.nn.BeamSearchDecoder(cell, 0, 1, 2)
    logits = paddle.to_tensor(np.log(np.array([[0.1, 0.5, 0.4], [0.03, 0.07, 0.9]], "float32")))
    inputs, states, finished = decoder.initialize(logits)
    found = []
    for step in range(4):
        outputs, states, inputs, finished = decoder.step(paddle.full([1], step, "int64"), inputs, states)
        found.append([list(outputs), list(states), finished])
    return found


@check("paddle.nn.dynamic_decode", "paddle.nn.decode.Decoder")
def decoders_of_ones_own_run(paddle, np, rng):
    from importlib import import_module

    base = import_module(paddle.__name__ + ".nn.decode").Decoder

    class Countdown(base):
        def initialize(self, inits):
            return inits, (inits * 1.0, inits * 0.0), inits[:, 0] < 1

        def step(self, time, inputs, states, factor=1.0):
            left, total = states
            left = left - 1
            return (left, {"time": time + 0}), (left, total + left * factor), left, left[:, 0] < 1

    first = paddle.to_tensor(np.array([[3.0], [1.0], [4.0]], "float32"))
    run = lambda **options: paddle.nn.dynamic_decode(Countdown(), first, output_time_major=True, **options)
    return {
        "plain": run(return_length=True), "imputed": run(impute_finished=True, factor=0.5, return_length=True),
        "short": run(max_step_num=1), "none": run(max_step_num=0),
        "abstract": [
            caught(lambda: base().initialize(None)),
            caught(lambda: base().step(None, None, None)),
            caught(lambda: base().finalize(None, None, None)),
        ],
        "own": base().tracks_own_finished,
    }  # fmt: skip
