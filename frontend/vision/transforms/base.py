"""What all transforms of images are: chains of them, the common class, and checks of their arguments."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from numbers import Real
from typing import Any

from polyreme.utils.shown import Shown, text_of

__all__ = ["BaseTransform", "Compose", "Keys", "expect", "pair_of"]

Keys = Sequence[str] | None


def expect(holds: bool, message: str) -> None:
    """AssertionError, which is what Paddle raises for these arguments."""
    if not holds:
        raise AssertionError(message)


def pair_of(size: Any) -> Any:
    return (int(float(size)),) * 2 if isinstance(size, Real) else size


class Compose:
    """Transforms one after the other."""

    def __init__(self, transforms: Sequence[Callable[[Any], Any]]):
        self.transforms = transforms

    def __call__(self, data: Any) -> Any:
        for transform in self.transforms:
            try:
                data = transform(data)
            except Exception as error:
                error.add_note(f"raised by the transform {transform} of a Compose")
                raise
        return data

    def __repr__(self) -> str:
        return f"{type(self).__name__}(" + "".join(f"\n    {text_of(t)}" for t in self.transforms) + "\n)"


class BaseTransform(Shown):
    """A transform of one image, or of a tuple of things that belong together.

    `keys` names what the parts of the tuple are: "image" [H, W, C], "coords" [N, 2], "boxes" [N, 4] of (left, top, right, bottom), "mask"
    [H, W, 1], or another name. A subclass defines `_apply_NAME` for each name that it takes, and may define `_get_params`, which is given
    the whole tuple first and whose result stands in `params`. Parts beyond the keys are passed on as they are. Without `keys` the input is
    an image.
    """

    def _shown(self) -> dict[str, Any]:
        found = super()._shown()
        return found if self.keys != ("image",) else {name: value for name, value in found.items() if name != "keys"}

    def __init__(self, keys: Keys = None):
        if keys is None:
            keys = ("image",)
        elif not isinstance(keys, Sequence):
            raise ValueError(f"keys should be a sequence, but got keys={keys}")
        for key in keys:
            if self._get_apply(key) is None:
                raise NotImplementedError(f"{key} is unsupported data structure: {type(self).__name__} defines no _apply_{key}")
        self.keys = keys
        self.params: Any = None

    def _get_params(self, inputs: tuple[Any, ...]) -> Any:
        return None

    def __call__(self, inputs: Any) -> Any:
        parts = inputs if isinstance(inputs, tuple) else (inputs,)
        self.params = self._get_params(parts)
        outputs = []
        for key, part in zip(self.keys, parts):
            apply = self._get_apply(key)
            outputs.append(part if apply is None else apply(part))
        outputs += parts[len(self.keys) :]
        return outputs[0] if len(outputs) == 1 else tuple(outputs)

    def _get_apply(self, key: str) -> Callable[[Any], Any] | None:
        return getattr(self, f"_apply_{key}", None)

    def _apply_image(self, image: Any) -> Any:
        raise NotImplementedError(f"expected {type(self).__name__} to define _apply_image")

    def _apply_boxes(self, boxes: Any) -> Any:
        raise NotImplementedError(f"expected {type(self).__name__} to define _apply_boxes")

    def _apply_mask(self, mask: Any) -> Any:
        raise NotImplementedError(f"expected {type(self).__name__} to define _apply_mask")

    def _apply_coords(self, coords: Any) -> Any:
        raise NotImplementedError(f"expected {type(self).__name__} to define _apply_coords")
