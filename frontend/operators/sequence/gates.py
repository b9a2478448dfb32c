"""LSTM and GRU over sequences of different lengths, and single steps of them, in the layouts of Paddle 1.8.

The parts of a row of gates stand one behind the other: of an LSTM the candidate, then the input, forget and output gate; of a GRU the
update and the reset gate, then the candidate.
"""

from __future__ import annotations

from collections.abc import Callable

from polyreme import dispatch, math
from polyreme.control_flow import gathered_steps
from polyreme.nn import functional
from polyreme.operators.arguments import UnsupportedError
from polyreme.operators.definition import operator, spelled
from polyreme.operators.sequence.pooling import last_level
from polyreme.operators.sequence.steps import laid_out, longest_first, rows_by_steps, rows_of_steps
from polyreme.tensor import Tensor

_ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "sigmoid": functional.sigmoid, "tanh": math.tanh, "relu": functional.relu, "identity": lambda x: x, "linear": lambda x: x,
}  # fmt: skip
_NUMBERED = ("identity", "sigmoid", "tanh", "relu")


def _activation(name: str | int) -> Callable[[Tensor], Tensor]:
    called = _NUMBERED[name] if isinstance(name, int) and 0 <= name < len(_NUMBERED) else name
    if called not in _ACTIVATIONS:
        raise UnsupportedError(f"expected an activation of {', '.join(sorted(_ACTIVATIONS))} but got '{called}'")
    return _ACTIVATIONS[str(called)]


def _columns(x: Tensor, first: int, stop: int, size: int) -> Tensor:
    """The parts from `first` to before `stop` of rows whose parts have `size` elements."""
    return x[:, first * size : stop * size]


def _width(weight: Tensor, what: str, gates: int) -> int:
    """The size of a state, by a weight [size, gates * size]."""
    size, columns = weight.type.shape
    if not isinstance(size, int) or columns != gates * size:
        raise UnsupportedError(f"expected a weight [size, {gates} * size] for '{what}' but got {list(weight.shape)}")
    return size


def _zeros(offsets: Tensor, size: int, like: Tensor) -> Tensor:
    return dispatch.full((offsets.type.shape[0] - 1, size), 0, like.type.dtype)


def _over_steps(
    step: Callable[..., list[Tensor]], states: list[Tensor], x: Tensor, levels: list[Tensor], reverse: bool
) -> list[Tensor]:
    """`step(rows, runs, *states)` for each step of the sequences of `x`, from the state behind its step before; the states of all rows.

    What else a step returns behind the states is kept for gradients, which do not compute it again. `runs` says which rows count; the
    longest sequence stands first, so that those which do not are together.
    """
    offsets = last_level(levels, "Input")
    order, ranks = longest_first(offsets)
    _, places, running = laid_out(x, offsets, order)
    runs_on = math.unsqueeze(running, -1)
    states = [math.gather(state, order, 0) for state in states]

    def one(taken: Tensor, runs: Tensor, *before: Tensor) -> tuple[list[Tensor], list[Tensor]]:
        made = step(taken, runs, *before)
        after = [math.where(runs, new, old) for new, old in zip(made, before, strict=False)]
        return after, [*after, *made[len(before) :]]

    _, made = gathered_steps(one, states, [rows_by_steps(x, places), runs_on], reverse)
    return [rows_of_steps(part, x, offsets, ranks) for part in made[: len(states)]]


def _lstm_step(
    rows: Tensor, cell: Tensor, size: int, peepholes: list[Tensor] | None, acts: list[Callable[[Tensor], Tensor]], limit: float = 0.0
) -> tuple[Tensor, Tensor, list[Tensor]]:
    """The output and the cell behind rows of gates [rows, 4 * size]; and the gates, once they are activated."""
    gate, of_cell, candidate = acts
    new, enter, forget, leave = (_columns(rows, i, i + 1, size) for i in range(4))
    if peepholes:
        enter = math.add(enter, math.multiply(cell, peepholes[0]))
        forget = math.add(forget, math.multiply(cell, peepholes[1]))
    new, enter, forget = candidate(new), gate(enter), gate(forget)
    after = math.add(math.multiply(new, enter), math.multiply(cell, forget))
    if limit > 0:
        after = math.clip(after, -limit, limit)
    if peepholes:
        leave = math.add(leave, math.multiply(after, peepholes[2]))
    leave = gate(leave)
    return math.multiply(leave, of_cell(after)), after, [new, enter, forget, leave]


def _where_running(runs: Tensor | None, x: Tensor) -> Tensor:
    """The rows that count, and zeros: kernels pass over the others."""
    return x if runs is None else math.where(runs, x, dispatch.full((), 0, x.type.dtype))


def _peepholes(bias: Tensor | None, used: bool, size: int) -> list[Tensor] | None:
    if not used:
        return None
    if bias is None or bias.type.shape[-1] != 7 * size:
        raise UnsupportedError(f"expected a bias [1, {7 * size}] for peepholes but got {None if bias is None else list(bias.shape)}")
    return [_columns(bias, i, i + 1, size) for i in (4, 5, 6)]


@operator(
    legacy=spelled(
        "lstm",
        {"Input": "input", "Weight": "weight", "H0": "h0", "C0": "c0", "Bias": "bias", "Input@LOD": "levels"},
        "Hidden Cell BatchGate BatchCellPreAct",
    )
)
def lstm(
    input: Tensor, weight: Tensor, h0: Tensor | None = None, c0: Tensor | None = None, bias: Tensor | None = None,
    levels: list[Tensor] | None = None, *, use_peepholes: bool = True, is_reverse: bool = False, gate_activation: str = "sigmoid",
    cell_activation: str = "tanh", candidate_activation: str = "tanh",
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Outputs and cells [rows, size] of sequences of gates [rows, 4 * size], to which h @ `weight` [size, 4 * size] and the bias are added.
    """
    size = _width(weight, "lstm", 4)
    offsets = last_level(levels or [], "Input")
    acts = [_activation(a) for a in (gate_activation, cell_activation, candidate_activation)]
    peepholes = _peepholes(bias, use_peepholes, size)
    x = input if bias is None else math.add(input, _columns(bias, 0, 4, size))
    states = [_zeros(offsets, size, input) if first is None else first for first in (h0, c0)]

    def step(rows: Tensor, runs: Tensor, hidden: Tensor, cell: Tensor) -> list[Tensor]:
        gates = _where_running(runs, math.add(rows, math.matmul(hidden, weight)))
        out, after, parts = _lstm_step(gates, cell, size, peepholes, acts)
        return [out, after, gates, *parts]

    hidden, cell = _over_steps(step, states, x, levels or [], is_reverse)
    return hidden, cell


@operator(
    legacy=spelled(
        "lstmp",
        {
            "Input": "input", "Weight": "weight", "ProjWeight": "projection", "H0": "h0", "C0": "c0", "Bias": "bias",
            "Input@LOD": "levels",
        },
        "Projection Cell BatchGate BatchCellPreAct BatchHidden",
    )
)  # fmt: skip
def lstmp(
    input: Tensor, weight: Tensor, projection: Tensor, h0: Tensor | None = None, c0: Tensor | None = None, bias: Tensor | None = None,
    levels: list[Tensor] | None = None, *, use_peepholes: bool = True, is_reverse: bool = False, gate_activation: str = "sigmoid",
    cell_activation: str = "tanh", candidate_activation: str = "tanh", proj_activation: str = "tanh", cell_clip: float = 0.0,
    proj_clip: float = 0.0,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """As `lstm`, but what is handed on is the output times `projection` [size, small], activated; `weight` is [small, 4 * size]."""
    size, small = projection.type.shape
    if not isinstance(size, int) or not isinstance(small, int) or weight.type.shape != (small, 4 * size):
        raise UnsupportedError(f"expected a weight [{small}, 4 * {size}] for 'lstmp' but got {list(weight.shape)}")
    offsets = last_level(levels or [], "Input")
    acts = [_activation(a) for a in (gate_activation, cell_activation, candidate_activation)]
    projected = _activation(proj_activation)
    peepholes = _peepholes(bias, use_peepholes, size)
    x = input if bias is None else math.add(input, _columns(bias, 0, 4, size))
    states = [_zeros(offsets, n, input) if first is None else first for first, n in ((h0, small), (c0, size))]

    def step(rows: Tensor, runs: Tensor, hidden: Tensor, cell: Tensor) -> list[Tensor]:
        gates = _where_running(runs, math.add(rows, math.matmul(hidden, weight)))
        out, after, parts = _lstm_step(gates, cell, size, peepholes, acts, cell_clip)
        made = projected(math.matmul(out, projection))
        return [math.clip(made, -proj_clip, proj_clip) if proj_clip > 0 else made, after, gates, *parts, made]

    hidden, cell = _over_steps(step, states, x, levels or [], is_reverse)
    return hidden, cell


def _gru_step(
    rows: Tensor, hidden: Tensor, weight: Tensor, size: int, gate: Callable[[Tensor], Tensor], candidate: Callable[[Tensor], Tensor],
    origin_mode: bool, runs: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    """The gates [rows, 2 * size], the candidate, the state let through by the reset gate, and the state behind. The elements of
    `weight` are those of a matrix [size, 2 * size] for the gates, and behind them those of one [size, size] for the candidate.
    """
    flat = math.reshape(weight, [-1])
    of_gates = math.reshape(flat[: 2 * size * size], [size, 2 * size])
    of_candidate = math.reshape(flat[2 * size * size :], [size, size])
    gates = gate(_where_running(runs, math.add(_columns(rows, 0, 2, size), math.matmul(hidden, of_gates))))
    update, reset = _columns(gates, 0, 1, size), _columns(gates, 1, 2, size)
    kept = math.multiply(reset, hidden)
    new = candidate(_where_running(runs, math.add(_columns(rows, 2, 3, size), math.matmul(kept, of_candidate))))
    first, second = (new, hidden) if origin_mode else (hidden, new)
    after = math.add(first, math.multiply(update, math.subtract(second, first)))
    return gates, new, kept, after


@operator(
    legacy=spelled(
        "gru",
        {"Input": "input", "Weight": "weight", "H0": "h0", "Bias": "bias", "Input@LOD": "levels"},
        "Hidden BatchGate BatchResetHiddenPrev BatchHidden",
    )
)
def gru(
    input: Tensor, weight: Tensor, h0: Tensor | None = None, bias: Tensor | None = None, levels: list[Tensor] | None = None, *,
    is_reverse: bool = False, gate_activation: str = "sigmoid", activation: str = "tanh", origin_mode: bool = False,
) -> Tensor:  # fmt: skip
    """States [rows, size] of sequences of gates [rows, 3 * size]; the new candidate has the share of the update gate in a state, or with
    `origin_mode` what is left by it.
    """
    size = _width(weight, "gru", 3)
    offsets = last_level(levels or [], "Input")
    gate, candidate = _activation(gate_activation), _activation(activation)
    x = input if bias is None else math.add(input, math.reshape(bias, [1, -1]))

    def step(rows: Tensor, runs: Tensor, hidden: Tensor) -> list[Tensor]:
        gates, new, _, after = _gru_step(rows, hidden, weight, size, gate, candidate, origin_mode, runs)
        return [after, gates, new]

    return _over_steps(step, [_zeros(offsets, size, input) if h0 is None else h0], x, levels or [], is_reverse)[0]


@operator(
    legacy=spelled(
        "gru_unit", {"Input": "input", "HiddenPrev": "hidden", "Weight": "weight", "Bias": "bias"}, "Gate ResetHiddenPrev Hidden"
    )
)
def gru_unit(
    input: Tensor, hidden: Tensor, weight: Tensor, bias: Tensor | None = None, *, activation: int = 2, gate_activation: int = 1,
    origin_mode: bool = False,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """One step of `gru`: gates, the state let through by the reset gate, and the state behind."""
    x = input if bias is None else math.add(input, math.reshape(bias, [1, -1]))
    size = _width(weight, "gru_unit", 3)
    gates, new, kept, after = _gru_step(x, hidden, weight, size, _activation(gate_activation), _activation(activation), origin_mode)
    return math.concat([gates, new], 1), kept, after


@operator(legacy=spelled("lstm_unit", {"X": "x", "C_prev": "cell"}, "C H"))
def lstm_unit(x: Tensor, cell: Tensor, *, forget_bias: float = 0.0) -> tuple[Tensor, Tensor]:
    """The cell and the output behind one step, of input, forget and output gate and the candidate one behind the other in `x`."""
    size = cell.type.shape[1]
    if not isinstance(size, int):
        raise UnsupportedError(f"expected a cell of a known size for 'lstm_unit' but got the shape {list(cell.shape)}")
    enter, forget, leave, new = (_columns(x, i, i + 1, size) for i in range(4))
    kept = math.multiply(cell, functional.sigmoid(math.scale(forget, 1.0, forget_bias)))
    after = math.add(kept, math.multiply(functional.sigmoid(enter), math.tanh(new)))
    return after, math.multiply(functional.sigmoid(leave), math.tanh(after))
