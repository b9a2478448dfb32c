"""Programs as Paddle's own bytes: what 1.8.5 and 2.6.2 wrote is read, written again and run."""

from __future__ import annotations

import contextlib
import os
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import polyreme as paddle
from polyreme import static
from polyreme.loaders.errors import LoaderError
from polyreme.loaders.program_desc import ProgramDesc, read_program, write_program
from tests.frontend.program_cases import CASES, NOT_IN_185, WITHOUT_GRADIENTS, X
from tests.frontend.static_mode import static_mode
from tests.frontend.test_nested_blocks import constant, counted_loop

FILES = sorted((Path(__file__).parents[1] / "fixtures" / "programs").glob("*/*.npz"))


@pytest.fixture(autouse=True)
def _static_mode() -> Any:
    with static_mode():
        yield


def _same_but_for_what_is_new(read: ProgramDesc, written: ProgramDesc) -> bool:
    """1.8.5 does not say which variables stop gradients: those that are fed."""
    for desc in (read, written):
        for block in desc.blocks:
            for variable in block.variables.values():
                variable.stop_gradient = False
    return read.blocks == written.blocks


@pytest.mark.parametrize("file", FILES, ids=lambda f: f"{f.parent.name}-{f.stem}")
def test_what_paddle_wrote_is_written_again(file: Path) -> None:
    found = np.load(file)
    for which in ("main", "startup"):
        data = found[which].tobytes()
        program = static.Program.parse_from_string(data)
        again = program.serialize_to_string()
        assert _same_but_for_what_is_new(read_program(data), read_program(again))
        assert static.Program.parse_from_string(again).serialize_to_string() == again
        assert program.clone().serialize_to_string() == again


# 1.8.5 goes back through a loop with values that the loop has written over by then, and Adam's epsilon has another place there.
FORWARD_ONLY = {"p185-while_loop_with_gradient"}
ROUGH = {"p185-adam"}


def _name(file: Path) -> str:
    return f"{file.parent.name}-{file.stem}"


# Of the others reading and writing are tested by default, and running on demand.
QUICK = ("p185-static_rnn", "p185-while_with_counter", "p185-nested_branches", "p262-cond_with_gradient", "p262-sgd")
RUNS = [pytest.param(f, id=_name(f), marks=[] if _name(f) in QUICK else pytest.mark.slow) for f in FILES]


@pytest.mark.parametrize("file", RUNS)
def test_what_paddle_wrote_gives_what_it_gave_there(file: Path) -> None:
    found = np.load(file)
    main, startup = (static.Program.parse_from_string(found[which].tobytes()) for which in ("main", "startup"))
    feed = {name.removeprefix("feed/"): found[name] for name in found.files if name.startswith("feed/")}
    names = [str(name) for name in found["fetches"]]
    steps = {int(name.split("/")[1]) for name in found.files if name.startswith("run/")}
    executor = static.Executor()
    executor.run(startup)
    name = _name(file)
    rtol = 1e-3 if name in ROUGH else 2e-5
    if name in FORWARD_ONLY:
        steps, names = {0}, names[:1]
    for step in sorted(steps):
        for i, array in enumerate(executor.run(main, feed, names)):
            expected = found[f"run/{step}/{i}"]
            assert array.dtype == expected.dtype
            np.testing.assert_allclose(array.reshape(expected.shape), expected, rtol=rtol, atol=1e-6, err_msg=f"step {step}: {names[i]}")


# --- what functions of the API recorded


def _recorded(cases: dict[str, Any]) -> tuple[Any, Any, list[str]]:
    """One program of these cases, with the gradients of the sum of all: main, startup, and what to fetch."""
    main, startup = static.default_main_program(), static.default_startup_program()
    x = static.data("x", [2, 6], "float32")
    x.stop_gradient = False
    found = [function(x) for function in cases.values()]
    terms = [paddle.sum(y * y) for name, y in zip(cases, found, strict=True) if y.dtype.name == "float32" and name in CASES]
    total = paddle.add_n(terms) if terms else None
    slopes = [] if total is None else static.gradients(total, [x, *main.all_parameters()])
    return main, startup, [v.name for v in (*found, *slopes) if v is not None]


@pytest.mark.parametrize("share", [4, pytest.param(1, marks=pytest.mark.slow)])
def test_recorded_programs_are_read_back(share: int) -> None:
    main, startup, names = _recorded(dict(list(CASES.items())[::share]))
    executor = static.Executor()
    executor.run(startup)
    expected = executor.run(main, {"x": X}, names)
    data = main.serialize_to_string()
    again, start = (static.Program.parse_from_string(p.serialize_to_string()) for p in (main, startup))
    assert again.serialize_to_string() == data
    known = {op.type for op in again.global_block().ops if type(op.kind).__name__ == "Unsupported"}
    assert not known
    with static.scope_guard(static.Scope()):
        executor.run(start)
        for name, want, got in zip(names, expected, executor.run(again, {"x": X}, names), strict=True):
            assert got.dtype == want.dtype
            np.testing.assert_allclose(got.reshape(want.shape), want, rtol=2e-5, atol=2e-4, err_msg=name)


def test_a_trained_program_is_read_back() -> None:
    x = static.data("x", [None, 6], "float32")
    hidden = paddle.nn.functional.dropout(static.nn.fc(x, 4, activation="relu"), 0.5)
    paddle.optimizer.Adam(0.1).minimize(paddle.mean(hidden * hidden))
    main, startup = static.default_main_program(), static.default_startup_program()
    startup.random_seed = 3
    executor = static.Executor()
    found = []
    for programs in ((main, startup), [static.Program.parse_from_string(p.serialize_to_string()) for p in (main, startup)]):
        with static.scope_guard(static.Scope()):
            paddle.seed(7)
            executor.run(programs[1])
            found.append([executor.run(programs[0], {"x": X}, ["fc_0.w_0"])[0] for _ in range(2)])
    np.testing.assert_allclose(found[1], found[0], rtol=1e-5)


def test_branches_and_loops_by_functions_are_written_as_blocks() -> None:
    main, _, names = _recorded(WITHOUT_GRADIENTS)
    again = static.Program.parse_from_string(main.serialize_to_string())
    assert main.num_blocks == 1 and again.num_blocks == 8
    for sign in (1, -1):
        want, got = (static.Executor().run(p, {"x": sign * abs(X)}, names)[0] for p in (main, again))
        np.testing.assert_allclose(got, want, rtol=1e-6)


def test_gradients_of_branches_by_functions_are_refused() -> None:
    x = static.data("x", [2, 6], "float32")
    x.stop_gradient = False
    static.gradients(WITHOUT_GRADIENTS["branches and loops"](x), [x])
    with pytest.raises(ValueError, match="or a branch or loop by functions"):
        static.default_main_program().serialize_to_string()


def test_batch_norm_has_the_slots_that_paddle_asks_for() -> None:
    """1.8.5 refuses a gradient with `Y`, and 2.6.2 an operator without `ReserveSpace`."""
    x = static.data("x", [2, 3, 4, 4], "float32")
    x.stop_gradient = False
    static.gradients(paddle.mean(static.nn.batch_norm(x) ** 2), [x])
    written = {op.type: op for op in read_program(static.default_main_program().serialize_to_string()).blocks[0].ops}
    assert "Y" not in written["batch_norm_grad"].inputs and written["batch_norm_grad"].inputs["SavedMean"]
    assert written["batch_norm"].outputs["ReserveSpace"]


def test_free_sizes_are_written() -> None:
    x = static.data("x", [None, 6], "float32")
    y = paddle.concat([paddle.reshape(x, [-1, 2, 3]).flatten(1)[:, 1:], paddle.zeros_like(x) + 1.0], 1)
    main = static.default_main_program()
    again = static.Program.parse_from_string(main.serialize_to_string())
    for rows in (1, 3):
        data = np.arange(rows * 6, dtype=np.float32).reshape(rows, 6)
        (got,) = static.Executor().run(again, {"x": data}, [y.name])
        np.testing.assert_array_equal(got, np.concatenate([data[:, 1:], np.ones_like(data)], 1))


def test_what_no_file_can_hold_is_refused_at_its_line() -> None:
    x = static.data("x", [2, 6], "float32")
    out = static.default_main_program().global_block().create_var("out", [2, 6], "float32")
    static.py_func(lambda v: v, x, out)
    with pytest.raises(ValueError, match="'py_func' cannot be written as one: it calls a Python function") as caught:
        static.default_main_program().serialize_to_string()
    assert __file__ in str(caught.value)
    assert "py_func" in static.default_main_program().to_string()


def test_blocks_are_written_and_read() -> None:
    main, _ = static.default_main_program(), None
    total = constant(main.global_block(), "total", 1.0, "float32")
    counted_loop(main, 3, lambda inner: inner.append_op(type="sum", inputs={"X": [total, total]}, outputs={"Out": [total]}))
    data = main.serialize_to_string()
    again = static.Program.parse_from_string(data)
    assert again.serialize_to_string() == data
    (loop,) = [op for op in again.global_block().ops if op.type == "while"]
    assert loop.attr("sub_block") is again.block(1) and loop.block_attr("sub_block") == 1
    assert static.Executor().run(again, fetch_list=["total"])[0].tolist() == [8.0]


# --- hostile bytes


def test_bytes_that_end_early_are_refused_or_read() -> None:
    data = np.load(FILES[0])["main"].tobytes()
    for end in range(0, len(data), 37):
        with contextlib.suppress(LoaderError):
            static.Program.parse_from_string(data[:end])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: setattr(d.blocks[1], "parent_idx", 1), "expected its parent in front of it but got block 1"),
        (lambda d: d.blocks[0].ops[-1].attrs.update(sub_block=7), "expected the number of a block as 'sub_block', below 2, but got 7"),
        (lambda d: d.blocks[0].ops[-1].attrs.update(sub_block=0), "expected the number of a block as 'sub_block', below 2, but got 0"),
        (lambda d: d.blocks[0].ops[0].outputs.update(Out=["nobody"]), "expected a variable of the program but got 'nobody'"),
        (lambda d: setattr(d.blocks[1], "idx", 5), "expected 1 but got 5"),
    ],
)
def test_programs_that_cannot_be_are_refused(change: Any, message: str) -> None:
    main = static.default_main_program()
    total = constant(main.global_block(), "total", 1.0, "float32")
    counted_loop(main, 3, lambda inner: inner.append_op(type="sum", inputs={"X": [total, total]}, outputs={"Out": [total]}))
    desc = main.get_desc()
    change(desc)
    with pytest.raises(LoaderError, match=message):
        static.Program.parse_from_string(write_program(desc))


# --- Paddle itself


@pytest.mark.peer
@pytest.mark.parametrize("version", ["1.8.5", "2.6.2"])
def test_paddle_reads_and_runs_what_we_write(version: str, tmp_path: Path) -> None:
    """`POLYREME_PADDLE_185_PYTHON` and `POLYREME_PADDLE_262_PYTHON` name a Python that has it."""
    python = os.environ.get(f"POLYREME_PADDLE_{version.replace('.', '')}_PYTHON")
    if not python:
        pytest.skip(f"no Python with Paddle {version} is named")
    expected: dict[str, Any] = {}
    for number, (name, function) in enumerate({**CASES, **WITHOUT_GRADIENTS}.items()):
        with static_mode() as (main, startup):
            _, _, names = _recorded({name: function})
            executor = static.Executor()
            executor.run(startup)
            expected[name] = executor.run(main, {"x": X}, names)
            data = [np.frombuffer(p.serialize_to_string(), np.uint8) for p in (main, startup)]
            np.savez(tmp_path / f"{number}.npz", main=data[0], startup=data[1], x=X, fetches=np.array(names))
    script = Path(__file__).parents[1] / "fixtures" / "run_programs.py"
    subprocess.run([python, str(script), str(tmp_path)], check=True, capture_output=True)
    compared, faults = 0, []
    for number, name in enumerate(expected):
        result = np.load(tmp_path / f"{number}.out.npz")
        if version == "1.8.5" and name in NOT_IN_185:
            assert "read" in result
            continue
        if "error" in result:
            faults.append(f"{name}: {result['error']}")
            continue
        for i, want in enumerate(expected[name]):
            got = result[f"out_{i}"]
            if not np.allclose(got.reshape(want.shape), want, rtol=2e-5, atol=2e-5):
                faults.append(f"{name}, {i}: expected {want} but got {got}")
        compared += 1
    assert not faults, "\n".join(faults)
    assert compared >= 75
