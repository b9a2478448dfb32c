"""How much of its caches a kernel may count on: what else lies there, and how few ways a cache has, is taken to be alike on every core."""

from __future__ import annotations

from polyreme.ir.python.records import dataclass
from polyreme.lowering.machines.memory import FAST_L3_BYTES
from polyreme.lowering.machines.targets import Target


@dataclass(frozen=True)
class Rooms:
    """Shares of L2, unless it says otherwise.

    - `image`: of a task, beside weights that are read for each of its tiles; `streamed_image` of one beside weights that pass by once.
    - `panel`: what a tile reads of weights before the next tile reads it again; `small_panel` in an L2 below `small` bytes.
    - `sums`: that wait in memory.
    - `weights`: that are read again for each row of an image, or each image of a batch; `scratch` of a task beside them.
    - `tiles`: bytes of scratch tiles of a task, which share L1 with what it reads, and live on the stack.
    - `batch`: what all images of a batch leave at a layer, in L2s, where layers are better done image by image.
    - `places`: of L1, where elements are that are read next.
    - `weights_of_l3`: of L3, larger ones come from memory each time, because the other layers evict them.
    - A larger image does not stay for the kernel that reads it: than all of L2, or than `slow` where L3 is slow, since the kernels around
      it want the same cache, or `apart` where cores may share none.
    """

    image: float = 1 / 4
    streamed_image: float = 1 / 2
    panel: float = 1 / 2
    small_panel: float = 1 / 4
    small: int = 1 << 20
    sums: float = 1 / 8
    weights: float = 1 / 4
    scratch: float = 1 / 2
    tiles: int = 96 << 10
    batch: float = 2
    places: float = 1 / 4
    weights_of_l3: float = 1 / 20
    slow: float = 1 / 32
    apart: float = 1 / 4

    def panel_bytes(self, target: Target) -> int:
        """Bytes of a panel's part that stay in L2 from tile to tile."""
        cache = target.caches[1]
        return int(cache * (self.small_panel if cache < self.small else self.panel))

    def handed_on(self, target: Target) -> int:
        """Bytes of an image that stay in L2 for the next kernel."""
        return int(target.caches[1] * (self.slow if target.l3_bytes_per_cycle < FAST_L3_BYTES else self.apart if target.separate_l3 else 1))


ROOMS = Rooms()
