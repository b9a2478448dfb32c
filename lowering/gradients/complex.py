"""Gradients of the parts of complex numbers. That of a real number z = f(x) for complex x is d/d(real x) + i d/d(imag x), as everywhere
here.
"""

from __future__ import annotations

from typing import Any

from polyreme.dialects.nn import Complex, Conj, Imag, Real
from polyreme.lowering.gradients.table import Emitter, Value, gradient, number, unbroadcast


@gradient(Real)
def real(op: Any, b: Emitter, dy: Value) -> Any:
    """dx = dy + 0i"""
    return (b(Complex, dy, number(b, 0, dy)),)


@gradient(Imag)
def imag(op: Any, b: Emitter, dy: Value) -> Any:
    """dx = 0 + i dy"""
    return (b(Complex, number(b, 0, dy), dy),)


@gradient(Conj)
def conj(op: Any, b: Emitter, dy: Value) -> Any:
    """dx = conj(dy)"""
    return (b(Conj, dy),)


@gradient(Complex)
def complex_(op: Any, b: Emitter, dz: Value) -> Any:
    """The parts of dz"""
    return unbroadcast(b, b(Real, dz), op.real.type), unbroadcast(b, b(Imag, dz), op.imag.type)
