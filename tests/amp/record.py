"""Records what Paddle 3.3.1 makes of `functions.py` and `scaling.py`: `PYTHON_WITH_PADDLE -m tests.amp.record`.

On a CPU `auto_cast` has no effect in dygraph mode, but in programs it writes its casts on any device: what is recorded are dtypes of such
programs' values. A function that Paddle refuses there is left out. A scaler refuses to be on on a CPU, but nothing of it needs a GPU: it is
made while Paddle does not ask for the device.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.amp import scaling
from tests.amp.functions import DTYPES, FUNCTIONS, LEVELS, dtypes_of, inputs

RECORDED = Path(__file__).with_name("recorded.json")
SCALERS = Path(__file__).with_name("scalers.json")


def write(path: Path, found: dict[str, Any]) -> None:
    """A line for each entry."""
    path.write_text("{\n" + ",\n".join(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in sorted(found.items())) + "\n}\n")


def record_scalers(paddle: Any) -> None:
    """Steps with scalers."""
    plain = paddle.amp.AmpScaler.__init__

    def made(self: Any, *args: Any, **kwargs: Any) -> None:
        module = paddle.amp.grad_scaler
        known, module.in_dynamic_mode = module.in_dynamic_mode, lambda: False
        try:
            plain(self, *args, **kwargs)
        finally:
            module.in_dynamic_mode = known

    paddle.amp.AmpScaler.__init__ = made
    paddle.amp.grad_scaler.float = lambda value: value  # what it prints of a scale, numpy has made an error since
    found = {f"{name}, {way}": scaling.run(paddle, settings, way) for name, settings in scaling.SETTINGS.items() for way in scaling.WAYS}
    write(SCALERS, found)


def main() -> None:
    import paddle

    record_scalers(paddle)
    paddle.enable_static()
    found: dict[str, Any] = {}
    for name, function in FUNCTIONS.items():
        for kind in DTYPES:
            for level, options in LEVELS.items():
                for given in ("float32", kind):
                    key = f"{level}, {kind}, of {'float32' if given == 'float32' else 'half'}"
                    with paddle.static.program_guard(paddle.static.Program(), paddle.static.Program()):
                        made = inputs(lambda *of: paddle.static.data(*of), given)
                        try:
                            with paddle.amp.auto_cast(dtype=kind, **options):
                                found.setdefault(name, {})[key] = dtypes_of(function(paddle, made))
                        except Exception as error:
                            print(name, key, " ".join(str(error).split())[-100:])
    write(RECORDED, found)


if __name__ == "__main__":
    main()
