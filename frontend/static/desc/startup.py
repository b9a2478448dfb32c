"""Initializers as Paddle's operators: each fills one variable."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from polyreme.dtypes import DTYPES
from polyreme.nn import initializer as init
from polyreme.static.desc.words import NUMBERS, Words

__all__ = ["spell_fill"]


def spell_fill(w: Words) -> None:
    """Say the operator that fills a variable as the initializer of a host operator does."""
    initializer = getattr(w.op.data, "initializer", None)
    if initializer is None:
        raise w.refuse("it calls a Python function, which no file can hold")
    if isinstance(initializer, init.Xavier):
        initializer = initializer._chosen
    shape = tuple(w.attrs["shape"])
    common = {"shape": list(shape), "dtype": NUMBERS[w.attrs["dtype"]]}
    seed = int(w.attrs.get("seed", 0))
    described = getattr(initializer, "operator", None)
    if described is not None and not isinstance(initializer, (init.Constant, init.Assign)):
        type, own = described(shape)
        drawn = {"seed": seed} if type.endswith("_random") else {}
        w.say(type, {}, {"Out": w.out}, **common, **own, **drawn)
    elif isinstance(initializer, init.Constant):
        value = initializer.value
        w.say("fill_constant", {}, {"Out": w.out}, **common, value=float(value), str_value=repr(value) if value else "")
    elif isinstance(initializer, init.Assign):
        _assign(w, np.asarray(initializer.value), common)
    elif isinstance(initializer, init.XavierNormal):
        _normal(w, common, seed, 0.0, initializer.gain * math.sqrt(2.0 / float(initializer.total(shape))))
    elif isinstance(initializer, init.XavierUniform):
        limit = initializer.gain * math.sqrt(6.0 / float(initializer.total(shape)))
        _uniform(w, common, seed, -limit, limit)
    elif isinstance(initializer, init.KaimingNormal):
        _normal(w, common, seed, 0.0, initializer.deviation(shape))
    elif isinstance(initializer, init.KaimingUniform):
        limit = math.sqrt(3.0) * initializer.deviation(shape)
        _uniform(w, common, seed, -limit, limit)
    elif isinstance(initializer, init.Normal):
        _normal(w, common, seed, initializer.mean, initializer.std)
    elif isinstance(initializer, init.Uniform):
        _uniform(w, common, seed, initializer.low, initializer.high)
    elif isinstance(initializer, init.TruncatedNormal) and (initializer.a, initializer.b) == (-2.0, 2.0):
        w.say("truncated_gaussian_random", {}, {"Out": w.out}, **common, mean=initializer.mean, std=initializer.std, seed=seed)
    else:
        raise w.refuse(f"no operator fills a variable as {initializer!r} does")


def _uniform(w: Words, common: dict[str, Any], seed: int, low: float, high: float) -> None:
    w.say("uniform_random", {}, {"Out": w.out}, **common, min=float(low), max=float(high), seed=seed)


def _normal(w: Words, common: dict[str, Any], seed: int, mean: float, std: float) -> None:
    w.say("gaussian_random", {}, {"Out": w.out}, **common, mean=float(mean), std=float(std), seed=seed)


def _assign(w: Words, array: np.ndarray[Any, Any], common: dict[str, Any]) -> None:
    kind = DTYPES[w.attrs["dtype"]].scalar
    values = array.astype(kind.np).reshape(-1)
    lists = {"bool": "bool_values", "int32": "int32_values", "int64": "int64_values", "float32": "fp32_values", "float64": "fp64_values"}
    if w.attrs["dtype"] not in lists:
        raise w.refuse(f"it fills a variable of {w.attrs['dtype']} with numbers")
    held = values.astype(np.int64) if w.attrs["dtype"] == "bool" else values
    w.say("assign_value", {}, {"Out": w.out}, **common, **{lists[w.attrs["dtype"]]: held.tolist()})
