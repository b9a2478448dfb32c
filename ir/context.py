"""Finding ops by name: a dialect's module is imported when its prefix is first met."""

from __future__ import annotations

import importlib

from polyreme.ir.core import Op
from polyreme.ir.define import OPS
from polyreme.ir.diagnostics import PolyremeError, did_you_mean

_DIALECTS: dict[str, str] = {"builtin": "polyreme.ir.builtin", "func": "polyreme.ir.builtin"}
_loaded: set[str] = set()


def register_dialects(table: dict[str, str]) -> None:
    """Make known which module declares the ops of each prefix; nothing is imported yet."""
    _DIALECTS.update(table)


def load_dialect(prefix: str) -> None:
    """Import the module that declares the ops of `prefix`, if there is one."""
    if prefix in _DIALECTS and prefix not in _loaded:
        importlib.import_module(_DIALECTS[prefix])
        _loaded.add(prefix)


def lookup_op(name: str) -> type[Op]:
    """The class of the op called `name`; an unknown name is an error with the nearest known one."""
    prefix = name.split(".")[0]
    load_dialect(prefix)
    if name in OPS:
        return OPS[name]
    if prefix not in _DIALECTS:
        raise PolyremeError(
            f"expected an op of the dialects {', '.join(sorted(_DIALECTS))} but got '{name}'{did_you_mean(prefix, _DIALECTS)}", code="E0105"
        )
    raise PolyremeError(f"the dialect '{prefix}' has no op '{name}'{did_you_mean(name, OPS)}", code="E0105")


def all_ops() -> dict[str, type[Op]]:
    """Every op of every registered dialect, by name."""
    for prefix in list(_DIALECTS):
        load_dialect(prefix)
    return dict(sorted(OPS.items()))
