"""Steps on the tape whose backward is a Python function, and how one that a program made is taken apart into several.

A program gives several results in one step. Where one of its results is computed from another, all of the gradient of the latter is known
only inside the program; who asks for it (`tape.stand_alone`) has the step replaced by two that give the results one after the other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any, Protocol

from polyreme.grad_mode import is_grad_enabled
from polyreme.tape import Node, as_tensors, attach, edge_of, now, settle
from polyreme.tensor import Tensor


class ProgramRun(Protocol):
    """What is known of a step that a program made."""

    def dependents(self, index: int) -> frozenset[int]:
        """The other results through which gradients come to the one at `index`."""

    def left(self, spent: frozenset[int]) -> frozenset[int]:
        """The results whose gradients pass nothing of what those at `spent` have passed."""

    def apart(self, index: int) -> Sequence[Tensor]:
        """All results, as made by several steps, the one at `index` before those that are computed from it."""


class FunctionNode(Node):
    """A step whose backward is a Python function of the output gradients: PyLayers and compiled functions.

    One with a `run` behind it may have results that others of its results are computed from. Whoever wants all of the gradient of such a
    result has it taken apart: from then on it hands gradients on to `places`, where the steps of its parts give each result. And as the
    steps of eager mode would, it passes gradients of some results after it has passed, and let go, those of others that nothing in it has
    to do with both.
    """

    __slots__ = ("floor", "function", "inputs", "left", "name", "places", "run", "sent", "spent")

    def __init__(self, inputs: Sequence[Tensor | None], outputs: int, function: Callable[..., Sequence[Tensor | None]], name: str):
        super().__init__(inputs, outputs)
        self.inputs: Sequence[Tensor | None] = inputs
        self.function: Callable[..., Sequence[Tensor | None]] | None = function
        self.name = name
        self.run: ProgramRun | None = None
        self.places: list[Any] | None = None
        self.floor: Any = None  # the steps that it was taken apart of come behind that one
        self.sent: frozenset[int] = frozenset()  # the results that the last gradients were of
        self.spent: frozenset[int] = frozenset()  # those whose gradients have passed for the last time
        self.left: frozenset[int] | None = None  # those whose gradients can pass since; None where all can

    def backward(self, grads: Sequence[Any]) -> Sequence[Any]:
        self.sent = frozenset([i for i, grad in enumerate(grads) if grad is not None])
        if self.function is None or self.left is not None and not self.sent <= self.left:
            raise RuntimeError(
                f"expected the first backward through '{self.name}' but it has run already; call the first one with retain_graph=True"
            )
        return self.function(*as_tensors(grads))

    def given(self) -> Sequence[Tensor | None]:
        return self.inputs

    def free(self) -> None:
        if self.run is not None:
            self.spent |= self.sent
            self.left = self.run.left(self.spent)
            if self.left:
                return
        self.function = None
        self.run = None
        self.inputs = ()

    def is_free(self) -> bool:
        return self.function is None

    def place_alone(self, index: int, among: Callable[[], set[tuple[int, int]]] | None) -> tuple[Node, int] | None:
        if self.places is None:
            if self.run is None:
                return None
            others = {(id(self), i) for i in self.run.dependents(index)}
            if not others or (among is not None and others.isdisjoint(among())):
                return None
            self.take_apart(index)
        return self.places[index] if self.places is not None else None

    def take_apart(self, index: int) -> None:
        """Become several steps, one of which gives the result at `index`."""
        if self.run is None or self.function is None:
            return
        since, floor = now(), self.sequence - 1 if self.floor is None else self.floor
        results = self.run.apart(index)
        self.inputs, self.edges, self.function = results, [edge_of(t) for t in results], lambda *grads: grads
        self.places = [edge if isinstance(edge, tuple) else None for edge in self.edges]
        self.run = None
        # They stand where this one does in the order of steps, before all that has used the results since then.
        nodes = sorted(_nodes_since([place[0] for place in self.places if place is not None], since), key=lambda node: node.sequence)
        for i, node in enumerate(nodes):
            node.sequence = floor + Fraction(self.sequence - floor) * (i + 1) / (len(nodes) + 1)
            if isinstance(node, FunctionNode):
                node.floor = nodes[i - 1].sequence if i else floor


def _nodes_since(waiting: list[Node], since: int) -> list[Node]:
    """The steps recorded since then that lead to these."""
    found: dict[int, Node] = {}
    while waiting:
        node = waiting.pop()
        if id(node) not in found and node.sequence >= since:
            found[id(node)] = node
            waiting += [edge[0] for edge in node.edges if isinstance(edge, tuple)]
    return list(found.values())


def record_function(
    inputs: Sequence[Tensor | None],
    results: Sequence[Tensor],
    backward: Callable[..., Sequence[Tensor | None]],
    name: str = "function",
    needing: Sequence[bool] | None = None,
) -> FunctionNode | None:
    """Remember that `results` came from `inputs` by a function whose gradients `backward(*output_grads)` computes, one per input.

    `needing` says of each result whether it needs a gradient, where not all of floating dtype do. The step, or None where no gradient is
    needed.
    """
    if not is_grad_enabled() or not any(t is not None and not t.stop_gradient for t in inputs):
        return None
    settle(*results)
    node = FunctionNode(inputs, len(results), backward, name)
    attach(node, results, needing)
    return node


def tensors_of(argument: Any) -> list[Tensor]:
    """The Tensors that an argument of `apply` gives: itself, or the elements of a list or tuple that holds nothing else; none otherwise."""
    if isinstance(argument, Tensor):
        return [argument]
    if isinstance(argument, (list, tuple)) and argument and all(isinstance(t, Tensor) for t in argument):
        return list(argument)
    return []
