"""`save` and `load`: Paddle's files both ways; nothing in a file runs; damage is found."""

import io
import os
import pickle
from collections import OrderedDict
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polyreme.loaders.safe_pickle import NamedArray, PickleError, read_pickle
from polyreme.parameter import Parameter
from polyreme.serialization import DIGEST_BYTES, SEAL, load, save
from polyreme.tensor import Tensor
from tests.fixtures.make_state_files import BIAS, WEIGHT

FILES = Path(__file__).parents[1] / "fixtures" / "state_files"


def state():
    return OrderedDict(weight=Parameter(WEIGHT, name="linear_0.w_0"), bias=Parameter(BIAS, name="linear_0.b_0"))


@pytest.mark.parametrize("protocol", [2, 3, 4])
def test_a_state_dict_saved_by_paddle_is_read(protocol):
    loaded = load(FILES / f"linear{protocol}.pdparams")
    np.testing.assert_array_equal(loaded["weight"].numpy(), WEIGHT)
    np.testing.assert_array_equal(loaded["bias"].numpy(), BIAS)
    assert loaded["weight"].name == "linear_0.w_0" and isinstance(loaded["weight"], Tensor) and len(loaded) == 2


def test_an_optimizer_state_saved_by_paddle_is_read():
    loaded = load(FILES / "adam.pdopt")
    assert loaded["LR_Scheduler"] == {"last_epoch": 0, "last_lr": 0.1}
    np.testing.assert_allclose(loaded["linear_0.w_0_moment1_0"].numpy(), np.full((2, 3), 0.1), rtol=1e-6)


def test_other_objects_saved_by_paddle_are_read():
    nested = load(FILES / "nested.pd")
    np.testing.assert_array_equal(nested["x"].numpy(), BIAS)
    assert nested["deep"]["t"].numpy().tolist() == [1, 2, 3] and nested["text"] == "hi" and nested["number"] == 3 and nested["half"] == 2.5
    values = load(FILES / "list.pd")
    assert values[1] == 1 and str(values[2][0].dtype) == "paddle.bfloat16" and values[2][0].astype("float32").numpy().tolist() == [1, 1]
    np.testing.assert_array_equal(load(FILES / "tensor.pd").numpy(), WEIGHT)


@pytest.mark.parametrize("protocol", [2, 3, 4])
def test_a_state_dict_is_written_as_paddle_writes_it(tmp_path, protocol):
    save(dict(state()), tmp_path / "ours.pdparams", protocol=protocol)
    ours = pickle.loads((tmp_path / "ours.pdparams").read_bytes())
    paddles = pickle.loads((FILES / f"linear{protocol}.pdparams").read_bytes())
    assert list(ours) == list(paddles) and ours["StructuredToParameterName@@"] == paddles["StructuredToParameterName@@"]
    for key in ("weight", "bias"):
        np.testing.assert_array_equal(ours[key], paddles[key])
        assert ours[key].dtype == paddles[key].dtype


def test_saving_then_loading_gives_the_same_object(tmp_path):
    value = {"a": [Tensor(WEIGHT), (1, "two", None, True)], "b": {"c": Tensor(np.arange(3))}, "d": np.float32(1.5)}
    save(value, tmp_path / "folder" / "value.pd")
    loaded = load(tmp_path / "folder" / "value.pd")
    np.testing.assert_array_equal(loaded["a"][0].numpy(), WEIGHT)
    assert loaded["a"][1] == (1, "two", None, True) and loaded["b"]["c"].numpy().tolist() == [0, 1, 2] and loaded["d"] == 1.5


def test_a_stream_in_place_of_a_path():
    stream = io.BytesIO()
    save(state(), stream)
    stream.seek(0)
    np.testing.assert_array_equal(load(stream, return_numpy=True)["weight"], WEIGHT)


def test_the_name_table_is_kept_on_request():
    assert load(FILES / "linear4.pdparams", keep_name_table=True)["StructuredToParameterName@@"] == {
        "weight": "linear_0.w_0",
        "bias": "linear_0.b_0",
    }


def test_an_empty_state_is_warned_of(tmp_path):
    with pytest.warns(UserWarning, match="The input state dict is empty, no need to save"):
        save({}, tmp_path / "empty.pdparams")
    assert load(tmp_path / "empty.pdparams") == {}


def test_a_failed_save_leaves_the_old_file(tmp_path):
    path = tmp_path / "model.pdparams"
    save(state(), path)
    before = path.read_bytes()
    with pytest.raises(ValueError, match="expected Tensors"):
        save([Tensor(WEIGHT), test_a_failed_save_leaves_the_old_file], path)
    assert path.read_bytes() == before and os.listdir(tmp_path) == ["model.pdparams"]


@pytest.mark.parametrize(("path", "match"), [("missing.pdparams", "not exists"), (".", "not exists")])
def test_a_path_without_a_file_is_refused(path, match, tmp_path):
    with pytest.raises(ValueError, match=match):
        load(tmp_path / path)


def test_a_path_without_a_name_and_a_wrong_protocol_are_refused(tmp_path):
    with pytest.raises(ValueError, match="filename is empty"):
        save(state(), f"{tmp_path}/")
    with pytest.raises(ValueError, match="protocol"):
        save(state(), tmp_path / "x", protocol=5)


class Hostile:
    """A pickle of this calls a function when it is read by pickle.load."""

    def __init__(self, function, *args):
        self.call = function, args

    def __reduce__(self):
        return self.call


@pytest.mark.parametrize("protocol", [2, 3, 4])
@pytest.mark.parametrize("make", [lambda p: Hostile(os.mkdir, p), lambda p: Hostile(eval, f"__import__('os').mkdir({p!r})")])
def test_a_hostile_file_is_refused_and_runs_nothing(make, protocol, tmp_path):
    trace = str(tmp_path / "trace")
    path = tmp_path / "hostile.pdparams"
    path.write_bytes(pickle.dumps({"weight": make(trace)}, protocol=protocol))
    with pytest.raises(ValueError, match="cannot load .*hostile.pdparams"):
        load(path)
    assert not os.path.exists(trace)
    pickle.load(path.open("rb"))  # the file is what it claims to be
    assert os.path.exists(trace)


@pytest.mark.parametrize("name", ["linear2.pdparams", "linear4.pdparams", "list.pd"])
def test_every_truncation_is_refused(name):
    data = (FILES / name).read_bytes()
    for length in range(len(data)):
        with pytest.raises(PickleError, match="cannot read the pickle"):
            read_pickle(data[:length])


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_damaged_bytes_are_refused_or_read_as_plain_values(data):
    content = bytearray((FILES / "linear4.pdparams").read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    try:
        value = read_pickle(bytes(content))
    except PickleError:
        return
    assert _is_plain(value)


def _is_plain(value):
    if isinstance(value, dict):
        return all(_is_plain(k) and _is_plain(v) for k, v in value.items())
    if isinstance(value, (list, tuple, set)):
        return all(map(_is_plain, value))
    return value is None or isinstance(value, (bool, int, float, str, bytes, np.ndarray, np.generic, NamedArray))


@pytest.mark.parametrize("protocol", [2, 3, 4])
def test_no_bit_of_a_file_of_ours_can_flip_unseen(protocol, tmp_path):
    path = tmp_path / "ours.pdparams"
    save(state(), path, protocol=protocol)
    whole = path.read_bytes()
    for bit in range(8 * len(whole)):
        damaged = bytearray(whole)
        damaged[bit // 8] ^= 1 << bit % 8
        path.write_bytes(damaged)
        with pytest.raises(ValueError, match="cannot load .*ours.pdparams"):
            load(path)


def test_a_file_of_ours_is_refused_at_any_other_length_but_without_its_seal(tmp_path):
    path = tmp_path / "ours.pdparams"
    save(state(), path)
    whole = path.read_bytes()
    pickle_alone = len(whole) - len(SEAL) - DIGEST_BYTES
    for data in [whole[:length] for length in range(len(whole))] + [whole + b"\0", whole + whole]:
        path.write_bytes(data)
        if len(data) == pickle_alone:
            assert list(load(path)) == ["weight", "bias"]
            continue
        with pytest.raises(ValueError, match="cannot load .*ours.pdparams"):
            load(path)


def test_lengths_are_checked_before_memory_is_taken():
    huge = b"\x80\x04\x8e" + (2**60).to_bytes(8, "little") + b"x."
    with pytest.raises(PickleError):
        read_pickle(huge)
    memo = b"\x80\x04Kxr" + (2**31 - 1).to_bytes(4, "little") + b"."
    assert read_pickle(memo) == 120
