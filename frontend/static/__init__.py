"""`paddle.static`: what describes a program before it runs."""

from polyreme.static.input_spec import InputSpec

__all__ = ["InputSpec"]
