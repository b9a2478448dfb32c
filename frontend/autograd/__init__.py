"""`paddle.autograd`: gradients of recorded steps, and steps of one's own."""

from polyreme.autograd.py_layer import PyLayer, PyLayerContext
from polyreme.tape import backward, enable_grad, grad, is_grad_enabled, no_grad, set_grad_enabled

__all__ = ["PyLayer", "PyLayerContext", "backward", "enable_grad", "grad", "is_grad_enabled", "no_grad", "set_grad_enabled"]
