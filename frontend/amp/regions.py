"""Regions in which operators compute in half precision: `auto_cast`."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Iterable
from typing import Any

from polyreme.casting import state as casts
from polyreme.device import as_place, current_place
from polyreme.runtime.cpu import has_flag
from polyreme.utils.shown import Shown

__all__ = [
    "amp_guard", "auto_cast", "autocast", "black_list", "get_autocast_cpu_dtype", "get_autocast_dtype", "get_autocast_gpu_dtype",
    "is_autocast_enabled", "is_bfloat16_supported", "is_float16_supported", "white_list",
]  # fmt: skip


class auto_cast(Shown):
    """Inside the `with`, in this thread, operators compute in float16 or bfloat16 where that is safe and pays; also a decorator.

    At level O1 operators of the white list (products, convolutions) cast their float32 inputs to `dtype`, those of the black list (sums,
    exponentials, losses) cast theirs to float32, and all others cast to the widest of their inputs. At O2, which is for models of
    `decorate`, fewer are in the black list; without `use_promote` all others cast to `dtype` there. At OD all that are not in the white
    list compute in float32. float64 is left alone. Results have the dtype that was computed in, gradients that of what they are of.

    On a CPU this warns and has no effect, as in Paddle; `paddle.set_flags({"FLAGS_amp_on_cpu": True})` lets it take effect there.

    Args:
        enable: whether operators are cast; a region with False inside another one computes as if there were none.
        custom_white_list: names of Paddle's operators (`matmul_v2`, `elementwise_add`) that are in the white list, too.
        custom_black_list: the same for the black list. A name that is in both is a `ValueError`.
        level: "O0" (nothing is cast), "O1", "O2" or "OD".
        dtype: "float16" or "bfloat16".
        use_promote: at O2, whether operators of neither list compute in float32 if one of their inputs is float32.
    """

    def __init__(
        self,
        enable: bool = True,
        custom_white_list: Iterable[str] | None = None,
        custom_black_list: Iterable[str] | None = None,
        level: str = "O1",
        dtype: Any = "float16",
        use_promote: bool = True,
    ):
        self.enable, self.level, self.use_promote = bool(enable), str(level).upper(), bool(use_promote)
        self.dtype: str = dtype.lower() if isinstance(dtype, str) else getattr(dtype, "name", repr(dtype))
        if self.level not in casts.LEVELS:
            raise ValueError(f"level should be O0, OD, O1 or O2, but got {level!r}")
        if self.enable and self.dtype not in casts.HALVES:
            raise ValueError(f"If enable amp, dtype should be 'float16' or 'bfloat16', but got {self.dtype!r}")
        self.custom_white_list, self.custom_black_list = _names(custom_white_list), _names(custom_black_list)
        if both := self.custom_white_list & self.custom_black_list:
            raise ValueError(f"Custom white list overlap custom black list: {', '.join(sorted(both))}")

    def __enter__(self) -> None:
        enable = self.enable
        casts.note_dtype(self.dtype)
        if enable and not casts.takes_effect():
            warnings.warn(
                f"amp_guard can only be enabled on CUDAPlace, XPUPlace, and CustomPlace, current place is {current_place()}, so it makes "
                "no effect; paddle.set_flags({'FLAGS_amp_on_cpu': True}) lets it take effect on a CPU",
                stacklevel=2,
            )
            enable = False
        found = None
        if enable and self.level != "O0":
            white, black = casts.lists(self.level, self.dtype)
            more, less = self.custom_white_list, self.custom_black_list
            white, black = (white | more) - less, (black - more) | less
            found = casts.casting(self.level, self.dtype, white, black, self.use_promote)
        casts.enter(found)

    def __exit__(self, *_: Any) -> None:
        casts.leave()

    def __call__(self, func: Callable[..., Any]) -> Callable[..., Any]:
        region = self

        @functools.wraps(func)
        def inside(*args: Any, **kwargs: Any) -> Any:
            with region:
                return func(*args, **kwargs)

        return inside


amp_guard = auto_cast


def _names(given: Iterable[str] | None) -> frozenset[str]:
    if given is not None and (isinstance(given, str) or not all(isinstance(name, str) for name in given)):
        raise TypeError(f"expected a set, list or tuple of names of operators but got {given!r}")
    return frozenset(given or ())


def autocast(device_type: str | None, dtype: Any = "float16", enabled: bool = True, cache_enabled: bool = True) -> auto_cast:
    """`auto_cast` at level O1 with the arguments of other frameworks: the device is the current one whatever `device_type` says, and no
    casts are kept, `cache_enabled` or not.
    """
    return auto_cast(enable=enabled, dtype=dtype)


def is_autocast_enabled(device_type: str | None = None) -> bool:
    """Whether operators are cast now, in this thread."""
    return casts.current() is not None


def get_autocast_dtype(device_type: str | None = None) -> str:
    """The name of the dtype that operators are cast to in this thread, "float16" where none are."""
    found = casts.current()
    return "float16" if found is None else next(name for name, scalar in casts.HALVES.items() if scalar == found.dtype)


get_autocast_cpu_dtype = get_autocast_gpu_dtype = get_autocast_dtype


def is_float16_supported(device: str | None = None) -> bool:
    """Whether mixed precision computes in float16 on a device, by default the current one. A CPU does not: it computes each operator in
    float32 and rounds.
    """
    return (current_place() if device is None else as_place(device)).is_gpu_place()


def is_bfloat16_supported(device: str | None = None) -> bool:
    """Whether it does in bfloat16: GPUs do, and CPUs with instructions for it (AVX512-BF16)."""
    place = current_place() if device is None else as_place(device)
    if place.is_gpu_place():
        return True
    return has_flag("avx512_bf16")


def white_list() -> dict[str, dict[str, set[str]]]:
    """The operators that are cast to half precision, by dtype and level."""
    return _by_level(0)


def black_list() -> dict[str, dict[str, set[str]]]:
    """The operators that are cast to float32, by dtype and level."""
    return _by_level(1)


def _by_level(which: int) -> dict[str, dict[str, set[str]]]:
    get: Callable[[str, str], set[str]] = lambda level, dtype: set(casts.lists(level, dtype)[which])  # noqa: E731
    return {dtype: {level: get(level, dtype) for level in ("OD", "O1", "O2")} for dtype in casts.HALVES}
