"""Files that are damaged or made to do harm: each is refused with an error that names the file and the place, quickly, without memory or
anything run.
"""

from __future__ import annotations

import copy
import errno
import json
import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import polyreme as paddle
from polyreme.loaders import read_model
from polyreme.loaders.errors import LoaderError, LoaderFault, LoaderMemoryError
from polyreme.loaders.numpy_files import archive_in, part_of
from polyreme.loaders.pdiparams import read_parameters, write_parameters
from polyreme.loaders.program import ProgramBuilder
from polyreme.loaders.program_desc import read_program

MODELS = Path(__file__).parents[1] / "fixtures" / "models"
PIR = (MODELS / "pir" / "mlp.json").read_bytes()
LEGACY = (MODELS / "legacy" / "mlp.pdmodel").read_bytes()
PARAMETERS = (MODELS / "legacy" / "mlp.pdiparams").read_bytes()
NAMES = read_program(LEGACY).parameters()
fuzzed = settings(max_examples=150, deadline=2000, suppress_health_check=[HealthCheck.function_scoped_fixture])


def write(folder, suffix, program, parameters=PARAMETERS):
    file = folder / f"model{suffix}"
    file.write_bytes(program)
    (folder / "model.pdiparams").write_bytes(parameters)
    return file


def refused(file, *patterns):
    """Reading must fail with an error that names the file; its text."""
    with pytest.raises(LoaderError) as caught:
        read_model(file)
    text = str(caught.value)
    assert file.stem in text
    for pattern in patterns:
        assert pattern in text, text
    return text


# --- the file of parameters


def test_parameters_are_written_as_paddle_writes_them(tmp_path):
    arrays = read_parameters(MODELS / "legacy" / "mlp.pdiparams", NAMES)
    write_parameters(tmp_path / "again.pdiparams", arrays)
    assert (tmp_path / "again.pdiparams").read_bytes() == PARAMETERS


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int64", "int8", "uint8", "bool"])
@pytest.mark.parametrize("shape", [(), (0, 3), (2, 3), (200,)])
def test_parameters_of_any_type_survive(tmp_path, dtype, shape):
    array = np.random.default_rng(1).integers(0, 2, shape).astype(dtype)
    write_parameters(tmp_path / "p", {"b": array, "a": array * 0})
    found = read_parameters(tmp_path / "p", ["a", "b"])
    np.testing.assert_array_equal(found["b"], array)
    assert found["b"].dtype == array.dtype and found["b"].shape == shape


def test_each_truncation_of_the_parameters_is_refused(tmp_path):
    for length in [*range(60), len(PARAMETERS) // 2, len(PARAMETERS) - 1]:
        (tmp_path / "p").write_bytes(PARAMETERS[:length])
        with pytest.raises(LoaderError, match=r"p: at byte \d+, in the parameter 'linear_3.b_0'|ends after|expected \d+ bytes"):
            read_parameters(tmp_path / "p", NAMES)


def test_bytes_after_the_last_parameter_are_refused(tmp_path):
    (tmp_path / "p").write_bytes(PARAMETERS + b"\0")
    with pytest.raises(LoaderError, match="expected the end after the program's 6 parameters but 1 bytes are left"):
        read_parameters(tmp_path / "p", NAMES)


def header(desc, lod=0):
    return struct.pack("<IQIi", 0, lod, 0, len(desc)) + desc


@pytest.mark.parametrize(
    "data, message",
    [
        (header(b"\x08\x05" + b"\x10\xff\xff\xff\xff\xff\xff\xff\xff\x7f" * 2), "expected sizes that memory can hold"),
        (header(b"\x08\x05\x10\x80\x80\x80\x80\x10"), "bytes for float32[4294967296] but 0 are left"),
        (header(b"\x08\x05\x10\x00" + b"\x10\xff\xff\xff\xff\xff\xff\xff\xff\x7f"), "expected sizes that memory can hold"),
        (header(b"\x08\x05" + b"\x10\x01" * 10), "expected at most 9 sizes"),
        (header(b"\x08\x05\x10" + b"\xff" * 9 + b"\x01"), "expected no negative size"),
        (header(b"\x08\x63\x10\x01"), "expected the number of a data type but got 99"),
        (header(b"\x08\x05\x10"), "a number ends too early"),
        (header(b"\x08\x05\x10" + b"\xff" * 11), "expected a number of at most 64 bits"),
        (header(b"\x0b"), "expected a field of a known kind but got kind 3"),
        (header(b"", lod=1 << 60), "expected at most 16 levels of detail"),
        (struct.pack("<IQQ", 0, 1, 1 << 62), f"expected {1 << 62} bytes for a level of detail"),
        (struct.pack("<IQIi", 0, 0, 0, -5), "expected -5 bytes"),
        (struct.pack("<IQIi", 0, 0, 0, 1 << 30), f"expected {1 << 30} bytes for the parameter 'w', its description but 0 are left"),
        (struct.pack("<I", 7), "expected a tensor of version 0 but got 7"),
    ],
)  # fmt: skip
def test_hostile_parameters_are_refused(tmp_path, data, message):
    (tmp_path / "p").write_bytes(data)
    with pytest.raises(LoaderError) as caught:
        read_parameters(tmp_path / "p", ["w"])
    assert message in str(caught.value) and "/p: at byte" in str(caught.value)


# --- programs


@pytest.mark.parametrize("suffix, data", [(".json", PIR), (".pdmodel", LEGACY)])
def test_each_truncation_of_a_program_is_refused(tmp_path, suffix, data):
    for length in range(0, len(data), 41):
        refused(write(tmp_path, suffix, data[:length]))


@fuzzed
@given(flips=st.lists(st.tuples(st.integers(0, len(LEGACY) - 1), st.integers(0, 7)), min_size=1, max_size=4))
def test_a_legacy_program_with_flipped_bits_is_read_or_refused(tmp_path, flips):
    data = bytearray(LEGACY)
    for place, bit in flips:
        data[place] ^= 1 << bit
    read_or_refuse(write(tmp_path, ".pdmodel", bytes(data)))


@fuzzed
@given(flips=st.lists(st.tuples(st.integers(0, len(PIR) - 1), st.integers(0, 6)), min_size=1, max_size=3))
def test_a_pir_program_with_flipped_bits_is_read_or_refused(tmp_path, flips):
    data = bytearray(PIR)
    for place, bit in flips:
        data[place] ^= 1 << bit
    read_or_refuse(write(tmp_path, ".json", bytes(data)))


def parts(value, path=()):
    """Every place in the JSON."""
    yield path
    for key, item in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield from parts(item, (*path, key))


PLACES = list(parts(json.loads(PIR)))[1:]
WRONG = [None, -1, 0, 3, 1 << 70, 1e300, "", "x", "1.relu", [], {}, [[]], {"#": "0.a_f32"}, [1, "a"], True]


@fuzzed
@given(place=st.sampled_from(PLACES), value=st.sampled_from(WRONG), delete=st.booleans())
def test_a_pir_program_with_a_wrong_part_is_read_or_refused(tmp_path, place, value, delete):
    root = json.loads(PIR)
    holder = root
    for key in place[:-1]:
        holder = holder[key]
    if delete:
        del holder[place[-1]]
    else:
        holder[place[-1]] = copy.deepcopy(value)
    read_or_refuse(write(tmp_path, ".json", json.dumps(root).encode()))


@fuzzed
@given(data=st.binary(max_size=200))
def test_any_bytes_are_refused(tmp_path, data):
    for suffix in (".json", ".pdmodel"):
        refused(write(tmp_path, suffix, data))


def read_or_refuse(file):
    """A flipped bit may be harmless (a name, an epsilon); what is not must be a `LoaderError`."""
    try:
        traced = read_model(file)
    except LoaderError as error:
        assert file.stem in str(error)
    else:
        assert traced.func.block.ops


def change(operator, edit):
    """The PIR program after `edit` of its first operator of this code."""
    root = json.loads(PIR)
    ops = root["program"]["regions"][0]["blocks"][0]["ops"]
    edit(next(op for op in ops if op["#"] == operator), ops)
    return json.dumps(root).encode()


def test_deep_nesting_is_refused(tmp_path):
    refused(write(tmp_path, ".json", b"[" * 200_000))
    deep = {"#": "0.a_i32", "D": 1}
    for _ in range(30):
        deep = {"#": "0.a_array", "D": [deep]}
    data = change("1.flatten", lambda op, ops: op["A"].append({"N": "deep", "AT": deep}))
    refused(write(tmp_path, ".json", data), "expected at most 8 levels of nesting")
    message = b""
    for _ in range(40):
        message = b"\x0a" + bytes([len(message)]) + message
    refused(write(tmp_path, ".pdmodel", b"\x0a" + bytes([len(message)]) + message))


def test_a_huge_constant_is_refused(tmp_path):
    kind = {"#": "0.t_dtensor", "D": [{"#": "0.t_f32"}, [1], "NCHW", [], 0]}
    full = {"#": "1.full", "I": [], "OA": [], "O": [{"%": 99, "TT": kind}], "A": [
        {"N": "shape", "AT": {"#": "1.a_intarray", "D": [1 << 40, 1 << 20]}}, {"N": "value", "AT": {"#": "0.a_f64", "D": 1.0}},
        {"N": "dtype", "AT": {"#": "1.a_dtype", "D": "float32"}},
    ]}  # fmt: skip
    data = change("1.flatten", lambda op, ops: ops.insert(5, full))
    refused(write(tmp_path, ".json", data), "ops[5] ('pd_op.full')", "expected at most")


def operator(code, inputs, **attributes):
    """An operator in PIR's form; every attribute is a list of whole numbers, a whole number or text. Its result is value 90."""

    def form(value):
        if isinstance(value, list):
            return {"#": "1.a_intarray", "D": value}
        return {"#": "0.a_str" if isinstance(value, str) else "0.a_i64", "D": value}

    return {
        "#": f"1.{code}", "I": [{"%": v} for v in inputs], "A": [{"N": k, "AT": form(v)} for k, v in attributes.items()], "OA": [],
        "O": [{"%": 90, "TT": {"#": "0.t_vec", "D": []}}],
    }  # fmt: skip


@pytest.mark.parametrize(
    "made",
    [
        operator("split_with_num", [7], num=1 << 40, axis=0),
        operator("unbind", [7], axis=1),
        operator("tile", [7], repeat_times=[1 << 40, 1 << 40, 1]),
        operator("expand", [7], shape=[1 << 20] * 30 + [-1, -1, -1]),
        operator("pad3d", [7], paddings=[1 << 40, 1 << 40], mode="reflect"),
        operator("linear_interp", [7], out_w=1 << 40, interp_method="linear", data_format="NCW"),
        operator("pool2d", [7], kernel_size=[1 << 40, 1 << 40], adaptive=1, pooling_type="avg"),
        operator("arange", [], start=0, end=1 << 60, step=1),
        operator("eye", [], num_rows=1 << 40, num_columns=1 << 40),
        operator("linspace", [], start=0, stop=1, number=1 << 40),
        operator("topk", [7], k=1 << 40),
        operator("one_hot", [7], num_classes=1 << 62),
    ],
    ids=lambda made: made["#"],
)
def test_an_operator_that_asks_for_too_much_is_refused(tmp_path, made):
    """Its operand is the input, [N, 2**40, 8]."""
    huge = 1 << 40

    def edit(op, ops):
        op["O"][0]["%"] = 7
        op["O"][0]["TT"]["D"][1] = [-1, huge, 8]
        ops[:] = [op, made, {"#": "1.fetch", "I": [{"%": 90}], "A": [], "O": [], "OA": []}]

    refused(write(tmp_path, ".json", change("1.data", edit), b""), "ops[1] (", "expected")


def test_a_size_that_is_reached_by_very_many_paths_is_found_at_once(tmp_path):
    def edit(op, ops):
        steps = [operator("full_int_array", [], value=[0])]
        steps += [operator("add", [99 + i, 99 + i]) for i in range(1, 150)]
        steps.append(operator("unsqueeze", [op["O"][0]["%"], 249]))
        for i, step in enumerate(steps):
            step["O"][0]["%"] = 100 + i
        ops[:] = [op, *steps, {"#": "1.fetch", "I": [{"%": 100 + len(steps) - 1}], "A": [], "O": [], "OA": []}]

    traced = read_model(write(tmp_path, ".json", change("1.data", edit), b""))
    assert str(traced.func.block.terminator.operands[0].type) == "tensor<1xNx8x8xf32>"


def test_sizes_that_grow_with_every_operator_are_refused(tmp_path):
    def edit(op, ops):
        ops[:] = [op]
        last = op["O"][0]["%"]
        for i in range(100, 180, 2):
            made = [operator("expand", [last], shape=[-1] * 3), operator("tile", [i], repeat_times=[1, 3, 7])]
            for j, step in enumerate(made):
                step["O"][0]["%"] = i + j
            last = i + 1
            ops += made
        ops.append({"#": "1.fetch", "I": [{"%": last}], "A": [], "O": [], "OA": []})

    refused(write(tmp_path, ".json", change("1.data", edit), b""), "with sizes that memory can hold")


@pytest.mark.parametrize(
    "operator, edit, message",
    [
        ("1.relu", lambda op, ops: op.update({"#": "1.rellu"}), "the operator 'rellu' is not supported; did you mean 'relu'?"),
        ("1.relu", lambda op, ops: op.update({"#": "1.if"}), "expected an object with 'regions'"),
        (
            "1.relu",
            lambda op, ops: op.update({"regions": []}),
            "the operator 'pd_op.relu' is not supported: of operators with regions only 'pd_op.if' and 'pd_op.while' are",
        ),
        ("1.relu", lambda op, ops: op.update({"#": "1.while", "regions": []}), "expected one region of a 'while' but got 0"),
        ("1.relu", lambda op, ops: op.update({"#": "1.if", "regions": [{"blocks": []}]}), "expected one block but got 0"),
        ("1.relu", lambda op, ops: op.update({"#": "3.relu"}), "operators of the dialect 'custom_op' are not supported"),
        ("1.relu", lambda op, ops: op["I"][0].update({"%": 77}), "expected a value that is defined before but got %77"),
        ("1.relu", lambda op, ops: op["I"][0].update({"%": 0}), "expected 'x' for 'relu' but the program leaves it out"),
        ("1.relu", lambda op, ops: op["O"][0].update({"%": 1}), "expected the number of a new value but got 1"),
        ("1.flatten", lambda op, ops: op["A"][0].update({"N": "first_axis"}), "expected no attribute 'first_axis' of 'flatten' but got 1"),
        ("1.flatten", lambda op, ops: op["A"][0]["AT"].update({"D": 9}), "expected axis in [-3, 3) but got 9"),
        (
            "1.flatten",
            lambda op, ops: op["O"][0]["TT"]["D"].__setitem__(1, [-1, 65]),
            "expected a result of type tensor<-1x65xf32>, which the file declares, but got tensor<Nx64xf32>",
        ),
        ("p", lambda op, ops: op["O"]["TT"]["D"].__setitem__(1, [11]), "but its file has tensor<10xf32>"),
        ("1.data", lambda op, ops: op["O"][0]["TT"].update({"#": "0.t_vec"}), "expected an input that is a dense tensor"),
        ("1.fetch", lambda op, ops: ops.remove(op), "expected a program with results but it fetches nothing"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_pir_program_is_said_in_place(tmp_path, operator, edit, message):
    refused(write(tmp_path, ".json", change(operator, edit)), message)


@pytest.mark.parametrize(
    "old, new, message",
    [
        (b"matmul_v2", b"matmul_v9", "the operator 'matmul_v9' is not supported; did you mean 'matmul_v2'?"),
        (b"\x0a\x01X\x12", b"\x0a\x01Q\x12", "expected the input slots X of 'flatten_contiguous_range' but got 'Q'"),
        (b"start_axis", b"begin_axis", "expected no attribute 'begin_axis' of 'flatten' but got 1"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_legacy_program_is_said_in_place(tmp_path, old, new, message):
    data = LEGACY.replace(old, new)
    assert data != LEGACY
    refused(write(tmp_path, ".pdmodel", data), message, "blocks[0].ops[", "at byte")


def test_a_parameter_name_cannot_lead_out_of_the_folder(tmp_path):
    inner = tmp_path / "model"
    inner.mkdir()
    name = NAMES[0].encode()
    assert name in LEGACY
    (inner / "__model__").write_bytes(LEGACY.replace(name, b"../" + name[3:]))
    with pytest.raises(LoaderError, match="expected a parameter whose name is that of a file"):
        read_model(inner)


# --- whose fault it is


@pytest.mark.parametrize(
    "read, kind, code, said",
    [
        (lambda: paddle.reshape(paddle.ones([4]), [3]), LoaderError, "E0701", "must be equal to the capacity"),
        (lambda: paddle.concat([paddle.ones([4]), paddle.ones([4])], 2), LoaderError, "E0701", "expected"),
        (lambda: {}["scale"], LoaderFault, "E0708", "KeyError: 'scale'; if Paddle reads the file, this is a fault of polyreme's"),
        (lambda: int("seven"), LoaderFault, "E0708", "ValueError: invalid literal"),
        (lambda: np.empty(1 << 58, np.uint8), LoaderMemoryError, "E0709", "not enough memory to read it: Unable to allocate"),
    ],
)
def test_what_fails_in_an_operator_is_told_by_whose_fault_it_is(read, kind, code, said):
    with pytest.raises(kind, match=said) as caught, ProgramBuilder("net.json", "net") as builder, builder.operator("op 3", "pd_op.mine"):
        read()
    error = caught.value
    assert type(error) is kind and error.diagnostics[0].code.startswith(code)
    assert str(error.message).startswith("net.json: op 3: ") and isinstance(error, MemoryError) == (kind is LoaderMemoryError)


def test_an_error_of_the_disk_is_not_told_as_a_damaged_archive(tmp_path, monkeypatch):
    np.savez(tmp_path / "two.npz", a=np.ones(3), b=np.ones(2))

    def broken(*_):
        raise OSError(errno.EIO, "Input/output error")

    with open(tmp_path / "two.npz", "rb") as stream, archive_in(stream) as archive:
        monkeypatch.setattr(archive, "read", broken)
        with pytest.raises(OSError, match="Input/output error"):
            part_of(archive, "a.npy")
