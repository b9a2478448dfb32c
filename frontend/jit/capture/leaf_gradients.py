"""`.grad` of parameters and other leaves, as a function that is captured finds it and leaves it.

While the function is captured a leaf's `_grad` is what eager mode would have there, as far as the function can tell; afterwards it is put
back, and a call of the program sets it as an effect. What a leaf has to have before such a call depends on how the function first meets it:
where `backward` arrives first, or it is cleared first, no gradient, zeros and (where it is cleared) any other are alike, so that the first
call of training and the later ones are one program.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from polyreme import tape
from polyreme.autograd.cleared import has_own_gradient, is_cleared, zeros_of
from polyreme.grad_mode import MANNER
from polyreme.ir.core import Value
from polyreme.ir.python.records import dataclass
from polyreme.jit.capture.sources import Attribute, Computed, Fixed, Guard, Source
from polyreme.jit.capture.watched import NotWhole, Watched
from polyreme.lowering.gradients.reach import undecided
from polyreme.tensor import Tensor
from polyreme.tensor_kinds.selected_rows import SelectedRows

if TYPE_CHECKING:
    from polyreme.jit.capture.trace import Trace

__all__ = ["LeafGradients", "WatchedLeaf", "is_freed"]


@dataclass
class WatchedLeaf:
    """A leaf in a capture: `tensor` stands for `real`, or is it. `kind` is what its gradient must be before a call, see `_KINDS`."""

    tensor: Tensor
    real: Tensor
    source: Source | None  # where it is found at a call; None for one that is always the same
    before: Tensor | None  # the gradient that it has
    kind: str = ""
    clears: str = ""  # "clear" or "drop" where it is cleared before anything else is done
    left: Tensor | None = None  # what it has then
    open: bool = False  # whether that is none, or zeros, as it was

    @property
    def source_or_self(self) -> Source:
        return self.source or Fixed(self.real, self.real.name)


class LeafGradients:
    """The gradients of all leaves in one capture."""

    def __init__(self, state: Watched, trace: Trace):
        self.state = state
        self.trace = trace
        self.given: dict[int, Tensor] = {}  # what the arguments are that stand-ins replace
        self.leaves: dict[int, WatchedLeaf] = {}
        self.trains = False  # whether the function runs `backward`, or an optimizer
        self.scheduled = False  # whether a schedule takes a step
        self.set_rates: dict[int, Any] = {}  # the rates that the function has set, by the ids of optimizers
        self.scaled: list[Any] = []  # those who scale losses whose scale has moved
        self.made: dict[int, Tensor] = {}  # tensors that the function made, and then made to need gradients

    # --- while the function runs

    def arrives(self, tensor: Tensor) -> None:
        """`backward` is about to add to the gradient of a leaf."""
        if id(tensor) in self.made:
            return
        leaf = self._leaf(tensor)
        if not leaf.kind and _holds(leaf.real, "empty"):
            leaf.kind, leaf.open = "empty", True
        elif not leaf.kind:
            self._settle(leaf)
        if leaf.open:
            # What is added takes the place of zeros, as of none.
            leaf.open = False
            leaf.left = tensor._grad = None

    def look(self, tensor: Tensor) -> None:
        """What the gradient of a leaf is, is asked for."""
        leaf = self._leaf(tensor)
        if not leaf.kind:
            self._settle(leaf)
        elif leaf.open:
            leaf.kind, leaf.open = "none" if leaf.before is None else "some", False

    def clear(self, tensor: Tensor, set_to_zero: bool) -> None:
        """The gradient of a leaf is cleared."""
        leaf = self._leaf(tensor)
        if leaf.kind or not _holds(leaf.real, "any"):
            self.look(tensor)
            tensor.clear_gradient(set_to_zero)
            return
        leaf.kind, leaf.clears, leaf.open = "any", "clear" if set_to_zero else "drop", set_to_zero
        leaf.left = None
        if set_to_zero and leaf.before is not None:
            leaf.left = Tensor._wrap(zeros_of(leaf.before.type))
            leaf.left.stop_gradient = False
        tensor._grad = leaf.left

    def is_outside(self, tensor: Tensor) -> bool:
        """Whether a tensor is an argument, or one from outside: one that may have a gradient."""
        return id(tensor) in self.given or id(tensor) in self.trace.originals or not isinstance(tensor._value, Value)

    def _leaf(self, tensor: Tensor) -> WatchedLeaf:
        known = self.leaves.get(id(tensor))
        if known is not None:
            return known
        if not self.is_outside(tensor):
            raise NotWhole("a tensor that was made inside the function has a gradient")
        real = self.given.get(id(tensor), tensor)
        original = self.trace.originals.get(id(real))
        if (original.place[0] if original is not None else real._node) is not None:
            raise NotWhole("gradients go on to what was computed before the call")
        if any(leaf.real is real for leaf in self.leaves.values()):
            raise NotWhole("a tensor that gets gradients is given twice")
        moves = tensor is not real or any(t is tensor for t in self.trace.path_tensors)
        made = WatchedLeaf(tensor, real, self.state.sources[id(tensor)] if moves else None, real._grad)
        if tensor is not real:
            tensor._name = real._name or real.name
            tensor._grad = real._grad
        self.leaves[id(tensor)] = made
        return made

    def _settle(self, leaf: WatchedLeaf) -> None:
        """The leaf's gradient must be at each call what it is now."""
        leaf.kind = next((kind for kind in ("none", "cleared", "own", "set") if _holds(leaf.real, kind)), "")
        leaf.left = held = leaf.before
        if not leaf.kind:
            raise NotWhole("a gradient from before the call is a part of a graph, or of another type than what it is of")
        if held is not None and leaf.kind != "cleared":
            self.state.note(held, Attribute(leaf.source_or_self, "grad"))
            self.trace.value_of(held)

    def check_graph(self, outputs: Sequence[Tensor]) -> None:
        """Before gradients are sent back from these: all steps on the way belong to the capture."""
        if MANNER.paddle_1:
            raise NotWhole("gradients of tensors that are no leaves are kept, in the manner of Paddle 1")
        nodes = _nodes_before(outputs)
        if any(node.sequence < self.trace.start for node in nodes):
            raise NotWhole("gradients go on to what was computed before the call")
        leaves = [self.given.get(id(edge), edge) for node in nodes for edge in node.edges if isinstance(edge, Tensor)]
        if any(tape.watcher_of(leaf) is not None for leaf in leaves):
            raise NotWhole("gradients are sent to other ranks while they are computed")
        if any(leaf._hooks for leaf in leaves):
            raise NotWhole("a hook from before the call is called with a gradient")
        trace = self.trace
        op = undecided(trace.block, [arg for arg in trace.block.args if arg in trace.differentiable], trace.unset)
        if op is not None:
            raise NotWhole(
                "which tensors get gradients depends on a branch, or on whether a loop runs, that a tensor decides", op.location
            )

    # --- the end

    def guards(self) -> list[Guard]:
        """What leaves must be at each call."""
        fixed = [(leaf.real, leaf.kind) for leaf in self.leaves.values() if leaf.source is None]
        moving = [leaf for leaf in self.leaves.values() if leaf.source is not None]
        made = []
        if fixed:
            check = Computed(lambda: all(_holds(real, kind) and tape.watcher_of(real) is None for real, kind in fixed), "parameters")
            made.append(Guard(check, "{0}", (), "have gradients, or none, as they had"))
        for leaf in moving:
            made.append(Guard(leaf.source_or_self, "{1}({0}, {2})", (_holds, leaf.kind), "has a gradient, or none, as it had"))
        if moving:
            apart = _OfTheirOwn(frozenset(id(real) for real, _ in fixed))
            sources = [leaf.source_or_self for leaf in moving]
            places = ", ".join(f"{{{i}}}" for i in (0, *range(2, len(moving) + 1)))
            made.append(Guard(sources[0], f"{{1}}({places})", (apart, *sources[1:]), "is another tensor than all that get gradients"))
        return made

    def changes(self) -> list[tuple[WatchedLeaf, str, Tensor | None]]:
        """What is done to the gradients of leaves after a run: `clear` or `drop` what is there, `zero` it, `set` it as `backward` does, or
        `put` another tensor there.
        """
        made: list[tuple[WatchedLeaf, str, Tensor | None]] = []
        for leaf in self.leaves.values():
            final = leaf.tensor._grad
            if isinstance(final, SelectedRows):
                raise NotWhole(f"the gradient of '{leaf.tensor.name}', a table that is read with sparse=True, is there when the call ends")
            if leaf.clears:
                made.append((leaf, leaf.clears, None))
            if final is leaf.left and leaf.kind != "empty":
                continue
            if final is None or is_cleared(final):
                made.append((leaf, "drop" if final is None else "zero", final))
            else:
                made.append((leaf, "set" if has_own_gradient(leaf.tensor) else "put", final))
        return made

    def restore(self) -> None:
        """Put everything back."""
        for leaf in self.leaves.values():
            leaf.tensor._grad = leaf.before


def _nodes_before(outputs: Sequence[Tensor]) -> list[tape.Node]:
    """The steps that these were computed by."""
    found: dict[int, tape.Node] = {}
    waiting = [t._node for t in outputs if t._node is not None]
    while waiting:
        node = waiting.pop()
        if id(node) not in found:
            found[id(node)] = node
            waiting += [edge[0] for edge in node.edges if isinstance(edge, tuple)]
    return list(found.values())


def is_freed(tensor: Tensor) -> bool:
    """Whether gradients cannot be sent back from a tensor any more, since that was done."""
    return any(node.is_free() for node in _nodes_before([tensor]))


class _OfTheirOwn:
    """Whether leaves that are found anew at each call are objects of their own, and none of those that are known."""

    def __init__(self, known: frozenset[int]):
        self.known = known

    def __call__(self, *leaves: Any) -> bool:
        found = set(map(id, leaves))
        return len(found) == len(leaves) and self.known.isdisjoint(found)


# --- what a gradient is before a call


def _is_plain_zeros(leaf: Tensor) -> bool:
    held = leaf._grad
    return held is not None and is_cleared(held) and not held.stop_gradient and not held._hooks and not has_own_gradient(leaf)


def _is_plain(leaf: Tensor, needing: bool = False) -> bool:
    """Whether its gradient is no part of a graph; a leaf itself if `needing`."""
    held = leaf._grad
    if held is None or held._node is not None or held._hooks or needing and held.stop_gradient:
        return False
    return isinstance(held._value, np.ndarray) and held.type == leaf.type


_KINDS: dict[str, Callable[[Tensor], bool]] = {
    "none": lambda leaf: leaf._grad is None,
    "cleared": _is_plain_zeros,
    "empty": lambda leaf: leaf._grad is None or _is_plain_zeros(leaf),
    "own": lambda leaf: _is_plain(leaf) and has_own_gradient(leaf),
    "set": lambda leaf: _is_plain(leaf) and not _is_plain_zeros(leaf) and not has_own_gradient(leaf),
    "any": lambda leaf: leaf._grad is None or _is_plain(leaf, True),
    "some": lambda leaf: _is_plain(leaf, True),
}


def _holds(leaf: Any, kind: str) -> bool:
    """Whether a tensor is a leaf, without hooks, that has such a gradient."""
    if not isinstance(leaf, Tensor) or leaf._node is not None or leaf._hooks:
        return False
    return (leaf._grad is None or not leaf._grad.is_selected_rows()) and _KINDS[kind](leaf)
