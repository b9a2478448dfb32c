"""Every optimizer with its options, for twenty steps of a small net: in words that Paddle has, too."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

STEPS = 20
RATE = {"Adadelta": 5.0, "Rprop": 0.01, "LBFGS": 0.5, "LarsMomentumOptimizer": 5.0, "SGD": 0.1, "ASGD": 0.1, "Momentum": 0.05}
# What `weight_decay`, `grad_clip` and rates are for optimizers that take them, by what it is called.
COMMON: dict[str, Callable[[Any], dict[str, Any]]] = {
    "plain": lambda paddle: {},
    "a decay": lambda paddle: {"weight_decay": 0.05},
    "a penalty of sizes": lambda paddle: {"weight_decay": paddle.regularizer.L1Decay(0.01)},
    "values are clipped": lambda paddle: {"grad_clip": paddle.nn.ClipGradByValue(0.05, -0.1)},
    "norms are clipped": lambda paddle: {"grad_clip": paddle.nn.ClipGradByNorm(0.1)},
    "the norm of all is clipped": lambda paddle: {"grad_clip": paddle.nn.ClipGradByGlobalNorm(0.2), "weight_decay": 0.02},
    "multi_precision": lambda paddle: {"multi_precision": True},
}
OWN: dict[str, dict[str, Callable[[Any], dict[str, Any]]]] = {
    "SGD": {},
    "Momentum": {
        "looks ahead": lambda paddle: {"use_nesterov": True, "momentum": 0.8},
        "looks ahead, with a decay": lambda paddle: {"use_nesterov": True, "weight_decay": paddle.regularizer.L2Decay(0.05)},
        "tensors at once": lambda paddle: {"use_multi_tensor": True},
    },
    "Adam": {
        "amsgrad": lambda paddle: {"amsgrad": True, "beta1": 0.5, "beta2": 0.9},
        "epsilon": lambda paddle: {"epsilon": 1e-3, "lazy_mode": True},
        "tensors at once": lambda paddle: {"use_multi_tensor": True},
    },
    "AdamW": {
        "amsgrad": lambda paddle: {"amsgrad": True, "beta1": 0.5, "beta2": 0.9},
        "some decay": lambda paddle: {"apply_decay_param_fun": lambda name: ".w_" in name, "weight_decay": 0.2},
    },
    "Adamax": {"betas": lambda paddle: {"beta1": 0.5, "beta2": 0.9, "epsilon": 1e-4}},
    "Adagrad": {"a start": lambda paddle: {"initial_accumulator_value": 0.1, "epsilon": 1e-4}},
    "Adadelta": {"rho": lambda paddle: {"rho": 0.8, "epsilon": 1e-3}},
    "RMSProp": {
        "centered": lambda paddle: {"centered": True, "momentum": 0.9, "rho": 0.9},
        "epsilon": lambda paddle: {"epsilon": 1e-2, "rho": 0.8, "momentum": 0.5},
    },
    "NAdam": {"momentum": lambda paddle: {"momentum_decay": 0.01, "beta1": 0.8}},
    "RAdam": {"betas": lambda paddle: {"beta1": 0.8, "beta2": 0.9}},
    "Rprop": {"etas": lambda paddle: {"etas": (0.4, 1.5), "learning_rate_range": (1e-4, 0.05)}},
    "ASGD": {"three batches": lambda paddle: {"batch_num": 3}},
    "Lamb": {
        "some decay": lambda paddle: {"exclude_from_weight_decay_fn": lambda p: ".b_" in p.name, "lamb_weight_decay": 0.1},
        "always": lambda paddle: {"always_adapt": True, "lamb_weight_decay": 0.0},
    },
    "LBFGS": {
        "wolfe": lambda paddle: {"line_search_fn": "strong_wolfe", "max_iter": 5},
        "history": lambda paddle: {"history_size": 2, "max_iter": 4},
    },
}
# What Paddle's do not take: a decay, `multi_precision`.
WITHOUT = {
    "weight_decay": {"Lamb", "Rprop"},
    "multi_precision": {"Adagrad", "Adadelta", "Adamax", "RMSProp", "NAdam", "RAdam"},
    "L1Decay": {"AdamW"},
}


def _cases() -> Iterator[tuple[str, str, str, Callable[[Any], dict[str, Any]]]]:
    """Kind, what of rates and parameters is another, what of options, and the options."""
    for kind, own in OWN.items():
        lacks = [what for what, kinds in WITHOUT.items() if kind in kinds]
        common = {what: options for what, options in COMMON.items() if not any(lack in _said(options) for lack in lacks)}
        if kind == "LBFGS":
            common = {what: options for what, options in COMMON.items() if what in ("plain", "a decay")}
        for what, options in (common | own).items():
            yield kind, "", what, options
        if kind != "LBFGS":
            for other in ("groups", "float64") if kind == "Rprop" else ("schedule", "groups", "float64"):
                yield kind, other, "plain", COMMON["plain"]


def _said(options: Any) -> str:
    """The names that options consist of."""
    return repr((options.__code__.co_consts, options.__code__.co_names))


CASES = {f"{kind}, {', '.join(filter(None, (other, what)))}": (kind, other, options) for kind, other, what, options in _cases()}


def batches() -> list[tuple[Any, Any]]:
    rng = np.random.default_rng(17)
    weight = rng.normal(size=(5, 2))
    xs = [rng.normal(size=(7, 5)) for _ in range(STEPS)]
    return [(x, np.sin(x @ weight)) for x in xs]


def trained(paddle: Any, name: str, compiled: Callable[[Any], Any] = lambda function: function) -> dict[str, Any]:
    """The losses of the steps, parameters and state after them."""
    kind, other, options_of = CASES[name]
    dtype = "float64" if other == "float64" else "float32"
    rng = np.random.default_rng(18)
    nn = paddle.nn
    paddle.set_default_dtype(dtype)
    try:
        with paddle.utils.unique_name.guard():
            net = nn.Sequential(nn.Linear(5, 6), nn.Tanh(), nn.Linear(6, 2))
            for p in net.parameters():
                p.set_value(rng.normal(size=p.shape).astype(dtype) * 0.5)
            rate = RATE.get(kind, 0.02)
            if other == "schedule":
                rate = paddle.optimizer.lr.CosineAnnealingDecay(rate, 7)
            parameters = net.parameters()
            if other == "groups":
                parameters = [
                    {"params": net[0].parameters(), "learning_rate": 0.5},
                    {"params": net[2].parameters(), **({} if kind in WITHOUT["weight_decay"] else {"weight_decay": 0.1})},
                ]
            optimizer = getattr(paddle.optimizer, kind)(rate, parameters=parameters, **options_of(paddle))
            return _steps(paddle, net, optimizer, rate, dtype, compiled)
    finally:
        paddle.set_default_dtype("float32")


def _steps(paddle: Any, net: Any, optimizer: Any, rate: Any, dtype: str, compiled: Callable[[Any], Any]) -> dict[str, Any]:
    def loss_of(x: Any, y: Any) -> Any:
        return ((net(x) - y) ** 2).mean()

    def step(x: Any, y: Any) -> Any:
        loss = loss_of(x, y)
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        return loss

    def step_of_closure(x: Any, y: Any) -> Any:
        def closure() -> Any:
            optimizer.clear_grad()
            loss = loss_of(x, y)
            loss.backward()
            return loss

        return optimizer.step(closure)

    is_lbfgs = type(optimizer).__name__ == "LBFGS"
    run = compiled(step_of_closure if is_lbfgs else step)
    losses = []
    # It takes for granted that the function is one and the same: on another batch at each step it goes anywhere.
    for x, y in batches()[:1] * STEPS if is_lbfgs else batches():
        losses.append(float(run(paddle.to_tensor(x.astype(dtype)), paddle.to_tensor(y.astype(dtype)))))
        if not isinstance(rate, float):
            rate.step()
    found: dict[str, Any] = {"losses": np.array(losses)}
    found |= {f"parameter {name}": p.numpy() for name, p in net.state_dict().items()}
    if not is_lbfgs:
        state = optimizer.state_dict()
        found |= {f"state {key}": value.numpy() for key, value in state.items() if hasattr(value, "numpy")}
        for key, held in state.items():
            if isinstance(held, dict):
                found |= {f"state {key}.{name}": np.array(value) for name, value in held.items() if isinstance(value, (int, float))}
    return found
