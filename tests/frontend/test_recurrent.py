"""Recurrent layers beside what the cases of `tests/api` compare with Paddle: compiled, saved by Paddle, differentiated twice, and what they
refuse.
"""

from pathlib import Path

import numpy as np
import pytest

import polyreme as paddle
from polyreme.compiled import heavy_kernels
from polyreme.compiled.inspection import model_module
from polyreme.ir.diagnostics import PassError
from polyreme.ir.evaluate import evaluate
from polyreme.ir.verify import verify
from polyreme.jit import TraceError
from polyreme.jit.capture.trace import UnknownSizeError
from polyreme.loaders import read_model
from polyreme.loaders.errors import LoaderError
from polyreme.lowering.machines.targets import find_target
from polyreme.lowering.pipeline import lower
from polyreme.nn.decode import Decoder
from polyreme.operators.arguments import UnsupportedError
from polyreme.operators.table import find_operator
from polyreme.utils import flatten, map_structure

MODELS = Path(__file__).parents[1] / "fixtures" / "models"
LAYERS = ["SimpleRNN", "LSTM", "GRU"]


def sequences(*shape):
    x = paddle.to_tensor(np.random.default_rng(7).standard_normal(shape).astype("float32"))
    x.stop_gradient = False
    return x


def states_of(layer, x):
    """Outputs and last states, as one list."""
    return flatten(layer(x, sequence_length=paddle.to_tensor([4, 1])))


@pytest.mark.parametrize("kind", LAYERS)
def test_compiled_layers_give_what_eager_ones_give_and_so_do_their_gradients(kind):
    layer = getattr(paddle.nn, kind)(3, 4, direction="bidirect")
    x = sequences(2, 4, 3)

    def gradients(results):
        sum((r * r).sum() for r in results).backward()
        found = [x.grad.numpy(), *(p.grad.numpy() for p in layer.parameters())]
        x.clear_grad()
        layer.clear_gradients()
        return found

    eager = states_of(layer, x)
    wanted = [[r.numpy() for r in eager], gradients(eager)]
    compiled = states_of(paddle.jit.to_static(layer), x)
    made = [[r.numpy() for r in compiled], gradients(compiled)]
    for got, expected in zip(sum(made, []), sum(wanted, []), strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kind", LAYERS)
def test_gradients_of_gradients_are_those_of_a_cell_run_step_by_step(kind):
    layer, x = getattr(paddle.nn, kind)(3, 4), sequences(2, 4, 3)
    found = []
    for run in (layer, paddle.nn.RNN(layer[0].cell)):
        y, _ = run(x)
        (first,) = paddle.grad((y * y).sum(), x, create_graph=True)
        (first * first).sum().backward()
        found.append([y.numpy(), first.numpy(), x.grad.numpy(), *(p.grad.numpy() for p in layer.parameters())])
        x.clear_grad()
        layer.clear_gradients()
    for got, expected in zip(*found, strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("kind", LAYERS)
def test_eager_layers_are_compiled_once_they_have_cost_enough_for_any_number_of_steps(kind, monkeypatch):
    monkeypatch.setattr(heavy_kernels, "WORTH_COMPILING", 1)
    monkeypatch.setattr(heavy_kernels, "_kernels", {})
    layer = getattr(paddle.nn, kind)(3, 6)
    for batch, steps in ((2, 5), (1, 3)):
        x, found = sequences(batch, steps, 3), []
        for run in (layer, paddle.nn.RNN(layer[0].cell)):
            y, last = run(x, sequence_length=paddle.to_tensor([steps - 1, steps][:batch]))
            sum((s * s).sum() for s in flatten(last)).backward()
            found.append(
                [*(s.numpy().reshape(batch, 6) for s in flatten(last)), x.grad.numpy(), *(p.grad.numpy() for p in layer.parameters())]
            )
            x.clear_grad()
            layer.clear_gradients()
        for got, expected in zip(*found, strict=True):
            np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-6)
    made = [
        kernel.cls for kernel in heavy_kernels._kernels.values() if kernel.cls in heavy_kernels.STEPPED and kernel.executable is not None
    ]
    assert len(made) == 2, "one kernel forward and one backward"


def test_dropout_between_layers_is_drawn_in_training_only_and_by_the_seed():
    layer, x = paddle.nn.GRU(3, 16, 3, dropout=0.5), sequences(2, 4, 3)

    def run(seed):
        paddle.seed(seed)
        return layer(x)[0].numpy()

    assert (run(1) == run(1)).all() and (run(1) != run(2)).any()
    layer.eval()
    assert (run(1) == run(2)).all()


@pytest.mark.parametrize("kind", LAYERS)
def test_layers_run_over_no_steps_and_over_no_sequences(kind):
    layer = getattr(paddle.nn, kind)(3, 4, 2, direction="bidirect")
    for shape, outputs, states in (((2, 0, 3), [2, 0, 8], [4, 2, 4]), ((0, 5, 3), [0, 5, 8], [4, 0, 4])):
        y, last = layer(sequences(*shape))
        assert list(y.shape) == outputs and all(list(s.shape) == states for s in flatten(last))


def test_a_compiled_layer_takes_any_batch():
    layer, x = paddle.nn.GRU(3, 4), sequences(5, 2, 3)
    eager = layer(x)[0].numpy()
    compiled = paddle.jit.to_static(layer, input_spec=[paddle.static.InputSpec([None, 2, 3], "float32", "x")])
    for batch in (5, 1, 2):
        np.testing.assert_allclose(compiled(x[:batch])[0].numpy(), eager[:batch], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kind", LAYERS)
def test_float16_is_computed_in_float32_and_rounded(kind):
    layer, x = getattr(paddle.nn, kind)(3, 4), sequences(2, 4, 3)
    wide = layer(x)[0].numpy()
    layer.astype("float16")
    y, _ = layer(x.astype("float16"))
    assert y.dtype == paddle.float16
    np.testing.assert_allclose(y.numpy().astype("float32"), wide, rtol=0, atol=4e-3)


@pytest.mark.parametrize("kind", LAYERS)
def test_a_compiled_layer_takes_any_number_of_steps(kind):
    layer = getattr(paddle.nn, kind)(3, 4, 2, direction="bidirect")
    compiled = paddle.jit.to_static(layer, input_spec=[paddle.static.InputSpec([None, None, 3], "float32", "x")])
    for batch, steps in ((2, 4), (1, 9), (3, 1)):
        x = sequences(batch, steps, 3)
        for got, expected in zip(flatten(compiled(x)), flatten(type(layer).forward(layer, x)), strict=True):
            np.testing.assert_allclose(got.numpy(), expected.numpy(), rtol=1e-5, atol=1e-6)


def test_where_steps_run_one_by_one_an_unknown_number_of_them_is_an_error_that_says_what_to_do():
    spec = [paddle.static.InputSpec([None, None, 3], "float32", "x")]
    with pytest.raises(
        UnknownSizeError, match="expected a known number of steps, which are run one by one, .*: use SimpleRNN, LSTM or GRU"
    ):
        paddle.jit.to_static(paddle.nn.RNN(paddle.nn.LSTMCell(3, 4)), input_spec=spec).forward.trace()
    module = model_module(paddle.nn.LSTM(3, 4), spec, freeze=True)
    with pytest.raises(PassError, match=r"expected a known number of steps .* give its size, as in InputSpec"):
        lower(module, find_target("cuda:sm_80"))


def test_the_names_of_a_layer_are_the_parameters_of_its_cells():
    layer = paddle.nn.LSTM(3, 4, 2, direction="bidirect")
    assert layer.weight_hh_l1_reverse is layer[1].cell_bw.weight_hh and layer.bias_ih_l0 is layer[0].cell_fw.bias_ih
    state = {k: v * 2 for k, v in layer.state_dict().items()}
    before = layer.weight_ih_l0.numpy()
    layer.set_state_dict(state)
    np.testing.assert_array_equal(layer[0].cell_fw.weight_ih.numpy(), before * 2)


# --- programs that Paddle saved


@pytest.mark.parametrize("format_", ["pir", "legacy"])
def test_layers_that_paddle_saved_agree_with_it(format_):
    module = read_model(MODELS / format_ / "recurrent").frozen()
    verify(module)
    values = np.load(MODELS / "recurrent.npz")
    for made, name in zip(evaluate(module, [values["x"], values["n"]]), ("y0", "y1", "y2", "y3"), strict=False):
        np.testing.assert_allclose(made, values[name], rtol=1e-5, atol=1e-6)


def test_a_recurrent_operator_whose_parts_do_not_fit_is_refused():
    x, state, weights = sequences(3, 2, 4), sequences(1, 2, 5), [sequences(5, 4), sequences(5, 5), sequences(5), sequences(5)]
    given = {"x": x, "pre_state": [state], "weight_list": weights, "input_size": 4, "hidden_size": 5}
    out, _, last, _ = find_operator("rnn").apply(given)
    np.testing.assert_array_equal(out[-1].numpy(), last[0][0].numpy())
    for change, message in (
        ({"mode": "LSTN"}, "expected a mode of LSTM"), ({"weight_list": weights[:3]}, "expected 4 weights"),
        ({"num_layers": 2}, "expected 8 weights"),
        ({"pre_state": [state, state]}, "expected 1 states"), ({"hidden_size": 6}, "states of size 6"),
    ):  # fmt: skip
        with pytest.raises(UnsupportedError, match=message):
            find_operator("rnn").apply({**given, **change})


def test_the_state_of_dropout_may_be_in_the_file_or_not(tmp_path):
    """It has no elements, and is the first tensor in the file: 24 bytes, which a saved Layer is without."""
    (tmp_path / "net.json").write_bytes((MODELS / "pir" / "recurrent.json").read_bytes())
    whole = (MODELS / "pir" / "recurrent.pdiparams").read_bytes()
    for data in (whole, whole[24:]):
        (tmp_path / "net.pdiparams").write_bytes(data)
        values = np.load(MODELS / "recurrent.npz")
        made = evaluate(read_model(tmp_path / "net").frozen(), [values["x"], values["n"]])
        np.testing.assert_allclose(made[0], values["y0"], rtol=1e-5, atol=1e-6)
    for data in (whole[:-24], whole + b"more", whole[48:]):
        (tmp_path / "net.pdiparams").write_bytes(data)
        with pytest.raises(LoaderError, match=r"net\.pdiparams: at byte"):
            read_model(tmp_path / "net")


# --- decoding


def test_decoding_within_a_traced_function_is_refused():
    cell = paddle.nn.GRUCell(3, 3)
    decoder = paddle.nn.BeamSearchDecoder(cell, 0, 1, 2, paddle.nn.Embedding(3, 3))
    with pytest.raises(TraceError, match="dynamic_decode' is called"):
        paddle.jit.to_static(lambda x: paddle.nn.dynamic_decode(decoder, x, max_step_num=3), full_graph=True)(paddle.ones([2, 3]))


class Silent(Decoder):
    """Tracks what is finished, but no lengths."""

    tracks_own_finished = True

    def initialize(self, inits):
        return inits, inits, inits < 1

    def step(self, time, inputs, states, **kwargs):
        return inputs, states - 1, inputs, states - 1 < 1


def test_a_decoder_without_lengths_is_warned_of_and_gives_zeros():
    with pytest.warns(UserWarning, match="would be all zeros"):
        outputs, _, lengths = paddle.nn.dynamic_decode(Silent(), paddle.to_tensor([2.0, 3.0]), output_time_major=True, return_length=True)
    assert list(outputs.shape) == [3, 2] and lengths.numpy().tolist() == [0, 0]


def test_a_decoder_that_is_finished_before_it_starts_is_an_error():
    with pytest.raises(ValueError, match="not finished before the first step"):
        paddle.nn.dynamic_decode(Silent(), paddle.to_tensor([0.0, 0.5]))


def test_a_beam_search_of_all_words_finds_the_best_sequence():
    """Against all sequences of three words, whose scores depend on the word before."""
    scores = np.random.default_rng(3).standard_normal((4, 4)).astype("float32")
    table = paddle.to_tensor(scores)
    decoder = paddle.nn.BeamSearchDecoder(lambda words, states: (table[words], states), start_token=0, end_token=3, beam_size=16)
    decoder.output_fn = None
    (ids, states) = paddle.nn.dynamic_decode(decoder, paddle.zeros([1, 1]), max_step_num=2)
    log = scores - np.log(np.exp(scores).sum(-1, keepdims=True))

    def value(sequence):
        total, word = 0.0, 0
        for following in sequence:
            total += log[word, following] if word != 3 else 0.0 if following == 3 else -1e9
            word = following
        return total

    best = max(((a, b, c) for a in range(4) for b in range(4) for c in range(4)), key=value)
    assert tuple(ids.numpy()[0, :, 0]) == best
    assert float(states.log_probs[0, 0]) == pytest.approx(value(best), rel=1e-5)


# --- nested structures


def test_structures_are_mapped_place_by_place_and_keep_their_kinds():
    made = map_structure(lambda a, b: a + b, {"y": (1, [2]), "x": 3}, {"x": 30, "y": (10, [20])})
    assert made == {"y": (11, [22]), "x": 33} and list(made) == ["y", "x"]
    assert flatten({"y": (1, [2]), "x": 3}) == [3, 1, 2] and flatten(5) == [5]


@pytest.mark.parametrize("other", [(1,), (1, 2, 3), {"a": 1}, 1, (1, (2,))])
def test_structures_that_are_nested_otherwise_are_refused(other):
    with pytest.raises(ValueError, match="expected structures that are nested alike but got .*int"):
        map_structure(max, (1, 2), other)


def test_a_decoder_may_do_without_finalize_but_what_its_own_raises_is_raised():
    class Steps(paddle.nn.decode.Decoder):
        def initialize(self, inits):
            return paddle.zeros([1]), inits, paddle.zeros([1], "bool")

        def step(self, time, inputs, states, **kwargs):
            return inputs + 1, states, inputs + 1, paddle.to_tensor([bool(int(time) >= 2)])

    class Unfinished(Steps):
        def finalize(self, outputs, final_states, sequence_lengths):
            raise NotImplementedError("of its own")

    outputs, *_ = paddle.nn.dynamic_decode(Steps(), inits=paddle.zeros([1]))
    assert outputs.tolist() == [[1.0, 2.0, 3.0]]
    with pytest.raises(NotImplementedError, match="of its own"):
        paddle.nn.dynamic_decode(Unfinished(), inits=paddle.zeros([1]))
