"""Registration, all of it: which module declares the ops of each prefix."""

from polyreme.ir.context import register_dialects

DIALECTS = {
    "nn": "polyreme.dialects.nn",
    "tensor": "polyreme.dialects.tensor",
    "kernel": "polyreme.dialects.kernel",
    "dist": "polyreme.dialects.dist",
    "host": "polyreme.dialects.host",
}
register_dialects(DIALECTS)
