"""What convolutions of a whole step of training cost, whose weights change in each of them, beside multiply-adds; for every machine."""

from __future__ import annotations

from polyreme.ir.python.records import dataclass


@dataclass(frozen=True)
class StepCosts:
    """In multiply-adds, unless it says otherwise.

    - `moved`: of each number of a patch that is laid out, or added up from patches.
    - `packed`: of each weight that is put into another order; `transformed` of one for Winograd's algorithm.
    - `winograd`: the part of the multiply-adds that this algorithm takes. It is faster from so many places of windows on
      (`winograd_places`), of an image.
    - `windows`: gradients of weights by windows take so many times as long as a product.
    - `channels_last`: the convolutions that Winograd's algorithm takes have to be so many times as much work as others, for which another
      layout is a loss.
    """

    moved: float = 16
    packed: float = 32
    transformed: float = 90
    winograd: float = 0.4
    winograd_places: int = 36
    windows: float = 1.1
    channels_last: float = 0.75


STEP_COSTS = StepCosts()
