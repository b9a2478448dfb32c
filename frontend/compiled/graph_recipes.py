"""Gradients of a whole small graph as one function of numpy calls, for the tape on the CPU.

A training loop of small ops sends gradients through the same graph again and again, and most of what that costs is Python between the
steps. Here a graph that is met again becomes a *recipe*: the recipes of its ops (`gradient_recipes.py`) one after another, with the sums
where gradients meet, as straight Python text. What depends on nothing but a first gradient of ones is computed once. Order and kernels are
those of the tape, so a recipe gives the same bits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any

import numpy as np

from polyreme import tape
from polyreme.grad_mode import recording
from polyreme.ir.scalar import loud, quietly
from polyreme.tape import OpNode
from polyreme.tensor import Tensor

__all__ = ["send_by_recipe"]

Array = np.ndarray[Any, Any]
MOST_STEPS = 64  # of a graph: what others cost is not Python alone
MOST_GRAPHS = 512
# Of what an op gives whose gradients have a compiled kernel: of less, numpy is as fast as the call of that.
MOST_ELEMENTS = 1024

# By what a graph is made of: how often it was met, or its recipe; None of one that has none.
_recipes: dict[tuple[Any, ...], GraphRecipe | int | None] = {}


class GraphRecipe:
    """`run(nodes, seed)` gives gradients of leaves; `order` are the numbers of these, `visited` those of the steps that gradients came to.
    """

    __slots__ = ("order", "run", "visited")

    def __init__(self, run: Callable[[Sequence[OpNode], Any], tuple[Array, ...]], order: tuple[int, ...], visited: tuple[int, ...]):
        self.run, self.order, self.visited = run, order, visited


def send_by_recipe(output: Tensor, seed: Tensor | None, retain_graph: bool) -> bool:
    """Add the gradients of `output` to its leaves; False, and nothing done, where that has to go step by step."""
    root: Any = output._node
    if root is None or output.stop_gradient or seed is not None and seed.type != output.type:
        return False
    nodes: list[Any] = [root]
    numbers: dict[Any, int] = {root: 0}  # of steps
    leaves: list[Tensor] = []
    places: dict[int, int] = {}  # of leaves
    key: list[Any] = [seed is None]
    note = key.append
    last, ordered = root.sequence, True
    for node in nodes:
        if node.__class__ is not OpNode:
            return False
        plan, saved = node.plan, node.saved
        if plan is None or saved is None or node.hooks or node.retained:
            return False
        if not plan.is_kept:
            return False  # an attribute cannot be a key: no graph with this plan is met again
        if node.sequence > last:
            ordered = False
        last = node.sequence
        note(plan)
        for edge, (tensor, version, _) in zip(node.edges, saved):
            if tensor._version != version:
                return False
            if edge.__class__ is tuple:
                before = edge[0]
                if before in numbers:
                    note(numbers[before])
                else:
                    note(len(nodes))
                    numbers[before] = len(nodes)
                    nodes.append(before)
            elif edge is None:
                note(None)
            else:
                number = places.get(id(edge))
                if number is None:
                    if edge._hooks:
                        return False
                    number = places[id(edge)] = len(leaves)
                    leaves.append(edge)
                note(-1 - number)
        if len(nodes) > MOST_STEPS:
            return False
    if not ordered:
        key.append(tuple([node.sequence - last for node in nodes]))
    known = tuple(key)
    recipe = _recipes.get(known, 0)
    if recipe.__class__ is int:
        if len(_recipes) >= MOST_GRAPHS:
            _recipes.clear()
        if not recipe:
            _recipes[known] = 1
            return False
        recipe = _recipes[known] = _RecipeWriter(nodes, leaves, seed).recipe()
    if recipe is None:
        return False
    assert isinstance(recipe, GraphRecipe)
    gradients = recipe.run(nodes, None if seed is None else seed._value)
    with recording(False):
        for number, gradient in zip(recipe.order, gradients):
            tape.accumulate(leaves[number], Tensor._wrap(gradient))
    if not retain_graph:
        for number in recipe.visited:
            node = nodes[number]
            node.saved = node.arrays = None
    return True


class _RecipeWriter:
    """Writes the text of a recipe while it computes, once, what the text will: shapes and dtypes are those of every later run."""

    def __init__(self, nodes: Sequence[OpNode], leaves: Sequence[Tensor], seed: Tensor | None):
        self.nodes, self.leaves, self.seed = nodes, leaves, seed
        self.lines: list[str] = []
        self.constants: dict[str, Any] = {"asarray": np.asarray, "quietly": quietly}
        self.values: dict[str, Array] = {}  # by variable
        self.fixed: set[str] = set()  # variables that are the same at each run

    def recipe(self) -> GraphRecipe | None:
        """The recipe; None where a step has none, or does something that only the tape sees to."""
        numbers = {id(node): i for i, node in enumerate(self.nodes)}
        arrived: dict[int, str] = {}  # by the id of a node or leaf, the variable
        order: list[int] = []  # of leaves
        shape, dtype = self.nodes[0].plan.result_types[0].shape, self.nodes[0].plan.result_types[0].dtype.np
        if self.seed is None:
            arrived[id(self.nodes[0])] = self._fixed(np.ones(shape, dtype))
        else:
            self.values["seed"] = self.seed._value
            arrived[id(self.nodes[0])] = "seed"
        visited = []
        for node in sorted(self.nodes, key=attrgetter("sequence"), reverse=True):
            gradient = arrived.pop(id(node), None)
            if gradient is None:
                continue
            if node.segments is not None or node.outputs != 1 or node.arrays is None:
                return None
            value, result = self.values[gradient], node.arrays[0]
            is_heavy = tape.has_compiled_rule(node.cls) and result.size > MOST_ELEMENTS
            recipe = None if is_heavy else node.plan.recipe(node.edges)
            if recipe is None or (value.shape, value.dtype) != (result.shape, result.dtype):
                return None
            visited.append(numbers[id(node)])
            made = self._of_node(numbers[id(node)], node, recipe, gradient)
            for edge, name in zip(node.edges, made, strict=True):
                if edge is None or name is None:
                    continue
                before = edge[0] if isinstance(edge, tuple) else edge
                held = arrived.get(id(before))
                if held is None:
                    arrived[id(before)] = name
                    if before is edge:
                        order.append(next(i for i, leaf in enumerate(self.leaves) if leaf is edge))
                    continue
                a, b = self.values[held], self.values[name]
                if (a.shape, a.dtype) != (b.shape, b.dtype):
                    return None
                arrived[id(before)] = self._step(np.add, [held, name])
        results = [arrived[id(self.leaves[number])] for number in order]
        # What is the same at each run is a leaf's own all the same.
        given = "".join(f"{name}.copy(), " if name in self.fixed else f"{name}, " for name in results)
        body = "".join(f"    {line}\n" for line in self.lines)
        text = f"def steps(nodes, seed):\n{body}    return ({given})\ndef run(nodes, seed):\n    return quietly(steps, nodes, seed)\n"
        exec(compile(text, "<gradients>", "exec"), self.constants)  # noqa: S102
        return GraphRecipe(self.constants["run"], tuple(order), tuple(visited))

    def _of_node(self, number: int, node: OpNode, recipe: Any, gradient: str) -> list[str | None]:
        """The variables that hold the gradients of a node's operands."""
        names: list[str] = []
        for kind, place in recipe.taken:
            if kind == "grad":
                names.append(gradient)
                continue
            name = self._new()
            source = f"nodes[{number}].saved[{place}][0]._value" if kind == "operand" else f"nodes[{number}].arrays[{place}]"
            self.lines.append(f"{name} = {source}")
            assert node.saved is not None and node.arrays is not None
            self.values[name] = node.saved[place][0]._value if kind == "operand" else node.arrays[place]
            names.append(name)
        for held in recipe.places[len(names) :]:
            names.append("" if held is None else self._fixed(held))
        for kernel, reads, place in recipe.steps:
            names[place] = self._step(kernel, [names[i] for i in reads])
        return [None if place is None else names[place] for place in recipe.given]

    def _new(self) -> str:
        return f"v{len(self.values)}"

    def _fixed(self, value: Array) -> str:
        name = self._new()
        self.values[name] = self.constants[name] = value
        self.fixed.add(name)
        return name

    def _step(self, kernel: Callable[..., Any], reads: Sequence[str]) -> str:
        """A variable for `kernel(*reads)`."""
        kernel = loud(kernel)  # all of them run quietly together
        made = quietly(kernel, *[self.values[name] for name in reads])
        name = self._new()
        several = isinstance(made, (tuple, list))
        self.values[name] = np.asarray(made[0] if several else made)
        if self.fixed.issuperset(reads):
            self.constants[name] = self.values[name]
            self.fixed.add(name)
            return name
        place = f"k{len(self.constants)}"
        self.constants[place] = kernel
        call = f"{place}({', '.join(reads)}){'[0]' if several else ''}"
        is_array = (made[0] if several else made).__class__ is np.ndarray
        self.lines.append(f"{name} = {call if is_array else f'asarray({call})'}")
        return name
