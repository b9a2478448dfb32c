"""`paddle.autograd`: gradients of recorded steps, and steps of one's own."""

from typing import TYPE_CHECKING

from polyreme.autograd.py_layer import PyLayer, PyLayerContext
from polyreme.names import absent_from, listed
from polyreme.tape import backward, enable_grad, grad, is_grad_enabled, no_grad, set_grad_enabled

__all__ = ["PyLayer", "PyLayerContext", "backward", "enable_grad", "grad", "is_grad_enabled", "no_grad", "set_grad_enabled"]

if not TYPE_CHECKING:
    # Not for type checkers, which would take any name for one that there is.
    __getattr__, __dir__ = absent_from(__name__), listed(__name__)
