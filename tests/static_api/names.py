"""`python -m tests.static_api.names`: write `names.json`, the names of `paddle.static` with their signatures, as Paddle 3.3.1 has them.

Run it in a python that has Paddle. `OLDER` are names that 3.3.1 has no more, with the signatures that Paddle's pages give.
"""

from __future__ import annotations

import ast
import inspect
import json
from pathlib import Path
from typing import Any

FILE = Path(__file__).with_name("names.json")
OLDER = {
    "paddle.static.CompiledProgram.with_data_parallel": (
        "(loss_name=None, build_strategy=None, exec_strategy=None, share_vars_from=None, places=None)"
    ),
    "paddle.static.ExecutionStrategy": "()",
    "paddle.static.ParallelExecutor": (
        "(use_cuda, loss_name=None, main_program=None, share_vars_from=None, exec_strategy=None, build_strategy=None, num_trainers=1, "
        "trainer_id=0, scope=None)"
    ),
    "paddle.static.ParallelExecutor.run": "(fetch_list, feed=None, feed_dict=None, return_numpy=True)",
    "paddle.static.ParallelExecutor.drop_local_exe_scopes": "()",
    "paddle.static.nn.data_norm": (
        "(input, act=None, epsilon=1e-05, param_attr=None, data_layout='NCHW', in_place=False, name=None, moving_mean_name=None, "
        "moving_variance_name=None, do_model_average_for_mean_and_var=True, slot_dim=-1, sync_stats=False, "
        "summary_decay_rate=0.9999999, enable_scale_and_shift=False)"
    ),
    "paddle.static.setitem": "(x, item, value)",
}


def stored() -> list[dict[str, Any]]:
    """The names: `name`, `signature` (None where there is none to tell) and `since`, the Paddle it is of."""
    names: list[dict[str, Any]] = json.loads(FILE.read_text(encoding="utf-8"))
    return names


def signature_of(value: Any) -> str | None:
    """Parameters with defaults, without annotations and the instance; None where none can be told or written down."""
    try:
        found = inspect.signature(value)
    except (TypeError, ValueError):
        return None
    parameters = [p.replace(annotation=p.empty) for p in found.parameters.values() if p.name != "self"]
    text = str(found.replace(parameters=parameters, return_annotation=found.empty))
    try:
        ast.parse(f"def f{text}: pass")
    except SyntaxError:
        return None
    return text


def main() -> None:
    import paddle

    found = {}
    for space, module in (("static", paddle.static), ("static.nn", paddle.static.nn)):
        for name in module.__all__:
            found[f"paddle.{space}.{name}"] = signature_of(getattr(module, name))
    for method in ("run", "close"):
        found[f"paddle.static.Executor.{method}"] = signature_of(getattr(paddle.static.Executor, method)) or "()"
    for name in ("array_length", "array_read", "array_write", "create_array"):
        found[f"paddle.tensor.{name}"] = signature_of(getattr(paddle.tensor, name))
    entries = [{"name": n, "signature": s, "since": "3.3.1"} for n, s in found.items() if n not in OLDER]
    entries += [{"name": n, "signature": s, "since": "older"} for n, s in OLDER.items()]
    FILE.write_text("[\n" + ",\n".join(json.dumps(e) for e in sorted(entries, key=lambda e: e["name"])) + "\n]\n", encoding="utf-8")


if __name__ == "__main__":
    main()
