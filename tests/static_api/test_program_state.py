"""The values of programs in files: Paddle's own, by all functions that write them and all that read them."""

from __future__ import annotations

import os
import subprocess
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import polyreme as paddle
from polyreme import static
from polyreme.ir.diagnostics import PolyremeError
from tests.frontend.static_mode import static_mode
from tests.static_api import state_programs

ROOT = Path(__file__).parents[2]
FIXTURE = ROOT / "tests" / "fixtures" / "program_state.npz"


@pytest.fixture
def theirs(tmp_path: Path) -> Path:
    """The files that 2.6.2 wrote."""
    for name, data in np.load(FIXTURE).items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(data.tobytes())
    return tmp_path


def _check(found: dict[str, Any], state: dict[str, Any], expected: Any, told: Any) -> None:
    assert set(found) == {"bytes", *(f"{how} of {what}" for how in ("load", "state") for what in ("saved", "saved2", "apart", "combined"))}
    for what, array in found.items():
        np.testing.assert_allclose(array, expected, rtol=1e-5, atol=1e-5, err_msg=what)
    assert set(state) == set(told)
    for name, array in state.items():
        np.testing.assert_array_equal(array, told[name])


def test_what_paddle_wrote_is_read(theirs: Path) -> None:
    told = dict(np.load(theirs / "told.npz"))
    with static_mode():
        found, state = state_programs.read(paddle, str(theirs))
    _check(found, state, told.pop("expected"), told)


def test_what_is_written_is_read(tmp_path: Path) -> None:
    with static_mode():
        expected, told = state_programs.write(paddle, str(tmp_path))
    with static_mode():
        found, state = state_programs.read(paddle, str(tmp_path))
    _check(found, state, expected, told)
    assert all(isinstance(value, np.ndarray) for value in state.values())


def test_nothing_is_set_unless_all_fits(theirs: Path) -> None:
    with static_mode():
        main, *_ = state_programs.net(paddle)
        executor = static.Executor()
        with pytest.raises(AssertionError, match=r"expected a value of 'w' in the scope .* run the startup program first"):
            static.set_program_state(main, {})
        with pytest.raises(RuntimeError, match="run the startup program first"):
            static.save(main, str(theirs / "nothing"))
        executor.run(static.default_startup_program())
        state = static.load_program_state(str(theirs / "saved"))
        before = {name: value.numpy() for name, value in main.state_dict().items()}
        for wrong in (np.zeros((4, 7), "float32"), np.zeros((4, 6), "float64")):
            with pytest.raises(AssertionError, match=r"float32\[4, 6\] for 'w' but got float"):
                static.set_program_state(main, {**state, "w": wrong})
        (theirs / "part.pdparams").write_bytes((theirs / "saved.pdparams").read_bytes())
        with pytest.raises(AssertionError, match=r"expected '\w+' in .*part.pdopt but it is not there"):
            static.load(main, str(theirs / "part"), executor)
        with pytest.raises(FileNotFoundError, match="neither .*absent.pdparams nor a folder or file"):
            static.load(main, str(theirs / "absent"), executor)
        with pytest.raises(ValueError, match="expected var_list"):
            static.load(main, str(theirs / "combined"), executor)
        for name, value in main.state_dict().items():
            np.testing.assert_array_equal(value.numpy(), before[name])
        with pytest.warns(UserWarning, match="'w.0' is not in the program"):
            static.set_program_state(main, {**state, "w.0": np.zeros(3)})
        np.testing.assert_array_equal(main.state_dict()["w"].numpy(), state["w"])
    assert not list(theirs.glob("nothing*"))


def test_a_damaged_file_is_refused_and_a_strange_one_passed_over(theirs: Path) -> None:
    with static_mode():
        main, *_ = state_programs.net(paddle)
        for file in ("saved.pdparams", "saved.pdopt", "values", "program"):
            data = (theirs / file).read_bytes()
            for end in range(1, len(data), len(data) // 7):
                (theirs / file).write_bytes(data[:end])
                with pytest.raises((PolyremeError, ValueError)):
                    if file.startswith("saved"):
                        static.load_program_state(str(theirs / "saved"))
                    elif file == "program":
                        static.deserialize_program(static.load_from_file(str(theirs / file)))
                    else:
                        static.deserialize_persistables(main, static.load_from_file(str(theirs / file)), None)
            (theirs / file).write_bytes(data)
        (theirs / "apart" / "notes.txt").write_text("no variable")
        with pytest.warns(RuntimeWarning, match="notes.txt is passed over"):
            assert "notes.txt" not in static.load_program_state(str(theirs / "apart"))


def test_a_program_that_paddle_cannot_hold_keeps_its_values(tmp_path: Path) -> None:
    with static_mode() as (main, startup):
        x = static.data("x", [None, 3])
        y = static.nn.fc(x, 3)
        out = main.global_block().create_var(name="out", shape=[-1, 3], dtype="float32")
        static.py_func(lambda v: v, y, out)
        static.Executor().run(startup)
        with pytest.warns(UserWarning, match="model.pdmodel is not written"):
            static.save(main, str(tmp_path / "model"))
        assert sorted(p.name for p in tmp_path.iterdir()) == ["model.pdopt", "model.pdparams"]
        assert sorted(static.load_program_state(str(tmp_path / "model"))) == ["fc_0.b_0", "fc_0.w_0"]


def test_values_of_bfloat16_come_back(tmp_path: Path) -> None:
    with static_mode() as (main, startup):
        made = static.create_parameter([2, 3], "bfloat16", name="half", default_initializer=paddle.nn.initializer.Constant(1.5))
        static.Executor().run(startup)
        static.save(main, str(tmp_path / "model"))
        made.set_value(made.get_value().numpy().view(made.type.dtype.np) * 0)
        static.load(main, str(tmp_path / "model"))
        assert (made.get_value().numpy().view(made.type.dtype.np) == 1.5).all()


@pytest.mark.peer
def test_values_are_exchanged_with_paddle(tmp_path: Path) -> None:
    """`POLYREME_PADDLE_262_PYTHON` names a Python that has Paddle 2.6.2."""
    python = os.environ.get("POLYREME_PADDLE_262_PYTHON")
    if not python:
        pytest.skip("no Python with Paddle 2.6.2 is named")
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    with static_mode():
        expected, state = state_programs.write(paddle, str(ours))
    script = ROOT / "tests" / "fixtures" / "exchange_program_state.py"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    subprocess.run([python, str(script), str(theirs), str(ours)], check=True, capture_output=True, env=environment, cwd=ROOT)
    there, told = dict(np.load(ours / "there.npz")), dict(np.load(theirs / "told.npz"))
    _check({name: there.pop(name) for name in list(there) if name == "bytes" or " of " in name}, there, expected, state)
    with static_mode(), warnings.catch_warnings():
        warnings.simplefilter("error")
        found, state = state_programs.read(paddle, str(theirs))
    _check(found, state, told.pop("expected"), told)
