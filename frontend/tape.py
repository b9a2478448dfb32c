"""The tape: what eager ops leave behind so that gradients can flow back through them.

Every differentiable result points to the `Node` that made it; a node points to the nodes of its operands. `backward` visits the nodes
against the order of their making and calls the gradient rules (`lowering/gradients/table.py`) through the dispatch point, so the gradients
of gradients are recorded like everything else when `create_graph` asks for it. The arrays behind tensors are never written in place (an
in-place function replaces the array and counts up the tensor's version), so a node may keep them without copies.
"""

from __future__ import annotations

import heapq
import itertools
import weakref
from collections.abc import Callable, Container, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from polyreme.casting.state import suspended
from polyreme.grad_mode import MANNER, enable_grad, is_grad_enabled, no_grad, set_grad_enabled
from polyreme.grad_mode import recording as recording
from polyreme.ir.core import Op
from polyreme.ir.dims import Dim
from polyreme.ir.scalar import quietly
from polyreme.ir.types import TensorType
from polyreme.pending import COUNT, Pending
from polyreme.provided import provided, provides
from polyreme.tensor import Tensor
from polyreme.tensor_kinds.selected_rows import SelectedRows, added
from polyreme.tensor_kinds.stale import StaleTensor

__all__ = ["enable_grad", "grad", "is_grad_enabled", "no_grad", "set_grad_enabled"]

_sequence = itertools.count()


# --- the graph


class Node:
    """One recorded step. `edges` say where the gradient of each input goes: a leaf tensor, (node, output number), or None."""

    __slots__ = ("edges", "hooks", "outputs", "retained", "sequence")

    def __init__(self, inputs: Sequence[Tensor | None], outputs: int):
        self.edges = [edge_of(t) for t in inputs]
        self.outputs = outputs
        self.sequence: Any = next(_sequence)
        self.hooks: dict[int, dict[int, Callable[..., Any]]] | None = None
        self.retained: dict[int, weakref.ref[Tensor]] | None = None

    def backward(self, grads: Sequence[Any]) -> Sequence[Any]:
        """The gradients of the inputs, None where there is none: tensors, or arrays where nothing is recorded. So are `grads`, those of the
        outputs.
        """
        raise NotImplementedError

    def free(self) -> None:
        """Let go of what only `backward` needs."""

    def is_free(self) -> bool:
        """Whether `free` was called."""
        return False

    def given(self) -> Sequence[Tensor | None]:
        """The tensors that the step took, as far as it knows them."""
        return ()

    def taken(self) -> Sequence[Tensor | None]:
        """As `given`, also where one of them has changed since, and none where they are free already."""
        return self.given()

    def place_alone(self, index: int, among: Callable[[], set[tuple[int, int]]] | None) -> tuple[Node, int] | None:
        """Another place, (node, output number), where all of the gradient of result `index` arrives, also what comes by other results, of
        `among` these if given; None where it does here.
        """
        return None


def as_tensor(grad: Any) -> Tensor:
    """A gradient that may be an array, as a tensor."""
    return Tensor._wrap(grad) if isinstance(grad, np.ndarray) else grad


def as_tensors(grads: Sequence[Any]) -> list[Any]:
    """The same for several, None among them."""
    return [None if g is None else as_tensor(g) for g in grads]


def _sum(a: Any, b: Any) -> Any:
    """Two gradients that arrive at one place."""
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray) and a.shape == b.shape and a.dtype == b.dtype:
        return np.asarray(quietly(np.add, a, b))
    if isinstance(a, SelectedRows) or isinstance(b, SelectedRows):
        return added(as_tensor(a), as_tensor(b), provided.add)
    return provided.add(as_tensor(a), as_tensor(b))


_compiled_rules: Container[type[Op]] = ()


def use_compiled_rules(ops: Container[type[Op]]) -> None:
    """Let the gradients of these ops be asked of `heavy_gradients` first. Who has their kernels says so: the tape loads nothing that a
    program may not need.
    """
    global _compiled_rules
    _compiled_rules = ops


def has_compiled_rule(cls: type[Op]) -> bool:
    """Whether gradients of an op are asked of `heavy_gradients` first."""
    return cls in _compiled_rules


def edge_of(tensor: Tensor | None) -> Any:
    """Where the gradient of `tensor` goes."""
    if tensor is None or tensor.stop_gradient:
        return None
    if COUNT.calls:
        settle(tensor)
    return tensor if tensor._node is None else (tensor._node, tensor._index)


@provides
def settle(*tensors: Tensor | None) -> None:
    """Compute what of `tensors` is pending, so that they have their places on the tape."""
    for tensor in tensors if COUNT.calls else ():
        if tensor is not None and (value := tensor._value).__class__ is Pending:
            value.resolve("its place on the tape")
            if tensor._value is value:
                value.give(tensor)


def same_edge(a: Any, b: Any) -> bool:
    """Whether gradients go to the same place."""
    return a is b or isinstance(a, tuple) and isinstance(b, tuple) and a[0] is b[0] and a[1] == b[1]


def changed_in_place(what: str, version: int, expected: int) -> str:
    """What is wrong when a gradient needs a tensor as it was at version `expected`."""
    return (
        f"Tensor '{what}' used in gradient computation has been modified by an inplace operation. Its version is {version} but the "
        f"expected version is {expected}. Please fix your code to void calling an inplace operator after using the Tensor which will used "
        f"in gradient computation."
    )


# Where the operands of each class of ops are, by name.
_places: dict[type[Op], dict[str, tuple[int, str]]] = {}


class OpNode(Node):
    """A recorded op. It has the operands, attributes and results by name, as gradient rules expect of an op."""

    __slots__ = ("arrays", "attributes", "cls", "plan", "saved", "segments")

    def __init__(self, cls: type[Op], operands: Sequence[Any], attributes: dict[str, Any], results: Sequence[Tensor], plan: Any):
        definition = cls.definition
        flat: Sequence[Tensor] = operands
        self.segments: tuple[int, ...] | None = None
        if not definition.plain or len(operands) != len(definition.operands):
            flat, self.segments = definition.bind_operands(operands)
        # As Node's own, in one pass: every recorded op comes here.
        self.edges = []
        self.saved: list[tuple[Tensor, int, TensorType]] | None = []
        for t in flat:
            node = t._node
            self.edges.append(None if t.stop_gradient else t if node is None else (node, t._index))
            self.saved.append((t, t._version, t._type or t.type))
        self.outputs = len(results)
        self.sequence = next(_sequence)
        self.hooks = None
        self.retained = None
        self.cls = cls
        self.attributes = attributes
        self.plan = plan
        self.arrays: list[Any] | None = [r._value for r in results]

    def __getattr__(self, name: str) -> Any:
        attributes = object.__getattribute__(self, "attributes")
        if name in attributes:
            return attributes[name]
        cls = object.__getattribute__(self, "cls")
        places = _places.get(cls)
        if places is None:
            places = _places[cls] = {part.name: (i, part.arity) for i, part in enumerate(cls.definition.operands)}
        if name in places:
            i, arity = places[name]
            return self._operand(i) if self.segments is None else self._group(arity, i)
        raise AttributeError(f"'{self.cls.name}' has no operand or attribute '{name}'")

    def _group(self, arity: str, part: int) -> Any:
        """The operands that belong to one declared operand of an op with optional or variadic ones."""
        assert self.segments is not None
        start = sum(self.segments[:part])
        group = tuple(self._operand(i) for i in range(start, start + self.segments[part]))
        return group if arity == "variadic" else group[0] if group else None

    def _operand(self, index: int) -> Tensor:
        if self.saved is None:
            raise RuntimeError(
                f"expected the first backward through '{self.cls.name}' but it has run already and freed what it needs; "
                "call the first one with retain_graph=True"
            )
        tensor, version, type_then = self.saved[index]
        if tensor._version == version:
            return tensor
        return StaleTensor(type_then, changed_in_place(f"an operand of '{self.cls.name}'", tensor._version, version))

    @property
    def operands(self) -> tuple[Tensor, ...]:
        return tuple(self._operand(i) for i in range(len(self.edges)))

    @property
    def results(self) -> list[Tensor]:
        if self.arrays is None:
            self._operand(0)
        return [self._result(i) for i in range(self.outputs)]

    @property
    def result(self) -> Tensor:
        (result,) = self.results
        return result

    def _result(self, index: int) -> Tensor:
        # A fresh tensor at the same place of the graph: the node must not keep its own results alive.
        assert self.arrays is not None
        alias = Tensor._wrap(self.arrays[index])
        alias.stop_gradient = False
        alias._node, alias._index = self, index
        return alias

    def backward(self, grads: Sequence[Any]) -> Sequence[Any]:
        if self.saved is None:
            self._operand(0)
        assert self.saved is not None and self.arrays is not None
        fresh = True
        for tensor, version, _ in self.saved:
            fresh = fresh and tensor._version == version
        if fresh and not is_grad_enabled():
            if self.cls in _compiled_rules and (made := self._by_compiled_rule(as_tensors(grads))) is not None:
                return made
            if self.plan is not None and self.segments is None:
                grad = grads[0]
                made = self.plan.gradients(self.saved, self.arrays, grad if isinstance(grad, np.ndarray) else grad._value, self.edges)
                if made is not None:
                    return made
        grads = as_tensors(grads)
        result = gradient_rules()[self.cls](self, _emit if fresh else _emit_around_stale, *grads)
        given = list(result) if isinstance(result, (tuple, list)) else [result]
        if self.segments is None:
            return given
        flat: list[Tensor | None] = []
        for part, size, entry in zip(self.cls.definition.operands, self.segments, given, strict=True):
            if part.arity == "variadic":
                flat += [None] * size if entry is None else list(entry)
            elif size:
                flat.append(entry)
        return flat

    def _by_compiled_rule(self, grads: Sequence[Tensor | None]) -> Sequence[Tensor | None] | None:
        """The gradients by a kernel of the whole rule, where it has one; None elsewhere, and where gradients of gradients are recorded."""
        assert self.saved is not None and self.arrays is not None
        return provided.compiled_gradient(
            self.cls, [t for t, _, _ in self.saved], self.segments, self.attributes, self.arrays, grads, self.edges
        )

    def free(self) -> None:
        self.saved = None
        self.arrays = None

    def is_free(self) -> bool:
        return self.saved is None

    def given(self) -> Sequence[Tensor | None]:
        if self.saved is None:
            self._operand(0)
        assert self.saved is not None
        for (tensor, version, _), edge in zip(self.saved, self.edges, strict=True):
            if edge is not None and tensor._version != version:
                raise RuntimeError(changed_in_place(f"an operand of '{self.cls.name}'", tensor._version, version))
        return [tensor for tensor, _, _ in self.saved]

    def taken(self) -> Sequence[Tensor | None]:
        return [tensor for tensor, _, _ in self.saved or ()]


@provides
def stand_alone(tensor: Tensor, among: Callable[[], set[tuple[int, int]]] | None = None) -> None:
    """Let all of the gradient of `tensor` arrive at its place on the tape, also what comes by other results of one step, if that is a
    program's; of the results `among` these, if given.
    """
    settle(tensor)
    while tensor._node is not None and (place := tensor._node.place_alone(tensor._index, among)) is not None:
        tensor._node, tensor._index = place


def _places_before(outputs: Sequence[Tensor]) -> set[tuple[int, int]]:
    """The places that gradients of these tensors come to: each the id of a step, and the number of a result."""
    settle(*outputs)
    found = {(id(t._node), t._index) for t in outputs if t._node is not None}
    waiting = [t._node for t in outputs if t._node is not None]
    met: set[int] = set()
    while waiting:
        node = waiting.pop()
        if id(node) not in met:
            met.add(id(node))
            for edge in node.edges:
                if isinstance(edge, tuple):
                    found.add((id(edge[0]), edge[1]))
                    waiting.append(edge[0])
    return found


def gradient_rules() -> dict[type[Op], Callable[..., Any]]:
    """The table of gradient rules (`lowering/gradients/table.py`), imported with the rules when the first differentiable op is met."""
    global _rules
    if _rules is None:
        from polyreme.lowering.gradients.autodiff import GRADIENTS

        _rules = GRADIENTS
    return _rules


_rules: dict[type[Op], Callable[..., Any]] | None = None


def _emit(cls: type[Op], *operands: Any, **attributes: Any) -> Any:
    if not attributes and len(operands) == 2 and (done := provided.planned_pair(cls, *operands)) is not None:
        return done
    return provided.call(cls, *operands, **attributes)


def _emit_around_stale(cls: type[Op], *operands: Any, **attributes: Any) -> Any:
    """As `_emit`, but what is computed from a changed tensor has no values, only types: it is an error when a gradient that is needed comes
    of it.
    """
    flat = [t for o in operands for t in (o if isinstance(o, (list, tuple)) else [o])]
    stale = next((t for t in flat if isinstance(t, StaleTensor)), None)
    if stale is None:
        return _emit(cls, *operands, **attributes)
    types = [None if o is None else tuple(t.type for t in o) if isinstance(o, (list, tuple)) else o.type for o in operands]
    types += [None] * (len(cls.definition.operands) - len(types))
    results = cls.definition.infer_types(types, cls.definition.bind_attributes(attributes))
    made = tuple(StaleTensor(type, stale.message) for type in results)
    return made[0] if len(made) == 1 else made


def _fresh_size() -> Dim:
    """A name for a size that is known once an op has run, in the function that is being traced: rules of branches and loops, which are
    recorded only there, ask for one.
    """
    recorder = provided.active_trace()
    assert recorder is not None
    return recorder.fresh_size()


_emit.fresh_size = _emit_around_stale.fresh_size = _fresh_size  # type: ignore[attr-defined]


def record(cls: type[Op], operands: Sequence[Any], attributes: dict[str, Any], results: Sequence[Tensor], plan: Any = None) -> None:
    """Remember that `results` came from an op; those of floating dtype need gradients from now on. `plan` is what dispatch knows of an
    eager call.
    """
    if has_rule(cls):
        attach(OpNode(cls, operands, attributes, results, plan), results)


def record_pair(plan: Any, x: Tensor, y: Tensor, result: Tensor) -> None:
    """As `record`, for an op that takes two tensors and gives one of a floating dtype: most steps of a training loop's Python are that."""
    node = OpNode.__new__(OpNode)
    before, other = x._node, y._node
    node.edges = [
        None if x.stop_gradient else x if before is None else (before, x._index),
        None if y.stop_gradient else y if other is None else (other, y._index),
    ]
    types = plan.types
    node.saved = [(x, x._version, types[0]), (y, y._version, types[1])]
    node.segments = None
    node.outputs = 1
    node.sequence = next(_sequence)
    node.hooks = node.retained = None
    node.cls, node.attributes, node.plan = plan.cls, plan.attributes, plan
    node.arrays = [result._value]
    result.stop_gradient = False
    result._node, result._index = node, 0


def has_rule(cls: type[Op]) -> bool:
    """Whether there is a gradient rule for an op."""
    return cls in (_rules or gradient_rules())


def attach(node: Node, results: Sequence[Tensor], needing: Sequence[bool] | None = None) -> None:
    for i, result in enumerate(results):
        if result.type.dtype.kind in "fc" and (needing is None or needing[i]):
            result.stop_gradient = False
            result._node, result._index = node, i


@provides
def retain(tensor: Tensor) -> None:
    """Keep the gradient of a tensor made by a recorded op, as leaves do."""
    if tensor.stop_gradient:
        raise RuntimeError("expected a tensor with stop_gradient=False but retain_grads() got one that needs no gradient")
    stand_alone(tensor)
    if tensor._node is not None:
        if tensor._node.retained is None:
            tensor._node.retained = {}
        tensor._node.retained[tensor._index] = weakref.ref(tensor)


# --- leaves that are watched


class Watcher(Protocol):
    """Who is told about the gradients of certain leaves while a backward runs; data parallel sends them on their way then."""

    def begin(self, edges: Mapping[int, int]) -> None:
        """A backward starts that may reach the leaves with these ids, each by so many steps."""

    def ready(self, leaf: Tensor) -> None:
        """The gradient of `leaf` is complete and added to its `.grad`."""

    def finish(self) -> None:
        """The backward is over: all that had gradients were ready."""


# Weak on both sides: watching keeps neither a model nor its watcher alive.
_watched: dict[int, tuple[weakref.ref[Tensor], weakref.ref[Watcher]]] = {}


def watch(leaf: Tensor, watcher: Watcher) -> None:
    """Tell `watcher` about `leaf` from now on, in place of who was told before, for as long as both live."""
    key, forget = id(leaf), _watched.pop
    _watched[key] = (weakref.ref(leaf, lambda _: forget(key, None)), weakref.ref(watcher))


def watcher_of(leaf: Tensor) -> Any:
    """Who watches `leaf`, or None."""
    entry = _watched.get(id(leaf))
    return entry[1]() if entry is not None and entry[0]() is leaf else None


def _watched_edges(outputs: Sequence[Tensor]) -> tuple[dict[int, int], list[Watcher]]:
    """How many edges lead to each watched leaf from the nodes behind `outputs`, by the leaf's id, and who watches these leaves."""
    counts: dict[int, int] = {}
    watchers: dict[int, Watcher] = {}
    met: set[int] = set()
    waiting = [t._node for t in outputs if t._node is not None]
    while waiting:
        node = waiting.pop()
        if id(node) in met:
            continue
        met.add(id(node))
        for edge in node.edges:
            if isinstance(edge, tuple):
                waiting.append(edge[0])
            elif edge is not None and (watcher := watcher_of(edge)) is not None:
                counts[id(edge)] = counts.get(id(edge), 0) + 1
                watchers[id(watcher)] = watcher
    return counts, list(watchers.values())


# --- backward


@provides
def backward(tensors: Any, grad_tensors: Any = None, retain_graph: bool = False) -> None:
    """Add the gradients of `tensors` to `.grad` of every leaf they were computed from.

    In the manner of Paddle 1 they take the place of what is there, and other tensors on the way that are still held have theirs, too.
    A missing gradient starts as ones. Without `retain_graph` the steps visited are freed.
    """
    outputs = _as_list(tensors)
    seeds = _as_list(grad_tensors) if grad_tensors is not None else [None] * len(outputs)
    if len(seeds) != len(outputs):
        raise ValueError(f"expected one gradient per tensor but got {len(seeds)} for {len(outputs)}")
    if len(outputs) == 1 and not _watched and not MANNER.paddle_1 and provided.sent_at_once(outputs[0], seeds[0], retain_graph):
        return
    _run(outputs, seeds, retain_graph, create_graph=False, wanted=None, blocked=())


def grad(
    outputs: Any,
    inputs: Any,
    grad_outputs: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True,
    allow_unused: bool = False,
    no_grad_vars: Any = None,
    *,
    dump_backward_graph_path: str | None = None,
) -> list[Tensor | None]:
    """The gradients of `outputs` with respect to `inputs`, as a list; nothing is added to `.grad`.

    With `create_graph` they can be differentiated again. An input that the outputs do not depend on is an error unless `allow_unused`,
    which gives None for it. Gradients do not flow through `no_grad_vars`.
    """
    if dump_backward_graph_path is not None:
        raise NotImplementedError("expected dump_backward_graph_path=None: the steps on the tape are not written to files")
    if not only_inputs:
        raise ValueError("expected only_inputs=True: gradients of other leaves are what backward() is for")
    targets, wanted = _as_list(outputs), _as_list(inputs)
    for what, given in (("outputs", targets), ("inputs", wanted)):
        if any(not hasattr(t, "stop_gradient") for t in given):
            raise AssertionError(f"expected {what} to be a Tensor or a list of Tensors but got {given!r}")
    seeds = _as_list(grad_outputs) if grad_outputs is not None else [None] * len(targets)
    if len(seeds) != len(targets):
        raise AssertionError(f"expected one of 'grad_outputs' per output but got {len(seeds)} for {len(targets)}")
    keep = create_graph if retain_graph is None else retain_graph
    blocked = _as_list(no_grad_vars) if no_grad_vars is not None else []
    for tensor in (*wanted, *blocked):
        stand_alone(tensor, lambda: _places_before(targets))
    found = _run(targets, seeds, keep, create_graph, wanted, blocked)
    for i, result in enumerate(found):
        if result is None and not allow_unused:
            raise ValueError(
                f"expected the outputs to depend on input {i} (shape {list(wanted[i].shape)}, stop_gradient={wanted[i].stop_gradient}) "
                "but they do not; allow_unused=True gives None for it"
            )
    return found


# --- parts of a graph


def now() -> int:
    """What tells the steps that are recorded from here on."""
    return next(_sequence)


def inputs_since(outputs: Sequence[Tensor], since: int) -> list[Tensor]:
    """The tensors with gradients that were there before `since`, and from which steps recorded since then have made `outputs`."""
    found: dict[Any, Tensor] = {}
    met: set[int] = set()
    waiting: list[Node] = []

    def look(tensor: Tensor | None) -> None:
        if tensor is None or tensor.stop_gradient:
            return
        if tensor._node is not None and tensor._node.sequence >= since:
            waiting.append(tensor._node)
        else:
            found.setdefault(_key(tensor), tensor)

    for output in outputs:
        look(output)
    while waiting:
        node = waiting.pop()
        if id(node) in met:
            continue
        met.add(id(node))
        for tensor in node.given():
            look(tensor)
    return list(found.values())


def place_of(tensor: Tensor) -> Any:
    """What tells where gradients of a tensor go."""
    return _key(tensor)


def gradients_since(
    since: int, outputs: Sequence[Tensor], grads: Sequence[Tensor], wanted: Sequence[Tensor], create_graph: bool
) -> list[Tensor | None]:
    """The gradients of `wanted` by the steps recorded since then alone, as a part of a backward."""
    if not outputs:
        return [None] * len(wanted)
    return _run(outputs, grads, create_graph, create_graph, wanted, (), since)


def goes_behind(since: int, outputs: Any, inputs: Any) -> bool:
    """Whether gradients of `outputs` with respect to `inputs` go through steps that were recorded before `since`."""
    targets, wanted = ([t for t in _as_list(given) if isinstance(t, Tensor)] for given in (outputs, inputs))
    settle(*targets, *wanted)
    useful = _reaching(targets, {_key(t) for t in wanted})
    waiting = [t._node for t in targets if t._node is not None]
    met: set[int] = set()
    while waiting:
        node = waiting.pop()
        if id(node) in useful and id(node) not in met:
            if node.sequence < since:
                return True
            met.add(id(node))
            waiting += [edge[0] for edge in node.edges if isinstance(edge, tuple)]
    return False


def _as_list(value: Any) -> list[Any]:
    return list(value) if isinstance(value, (list, tuple)) else [value]


def _key(tensor: Tensor) -> Any:
    return (id(tensor), 0) if tensor._node is None else (id(tensor._node), tensor._index)


def _run(
    outputs: Sequence[Tensor],
    seeds: Sequence[Tensor | None],
    retain_graph: bool,
    create_graph: bool,
    wanted: Sequence[Tensor] | None,
    blocked: Sequence[Tensor],
    since: int | None = None,
) -> list[Tensor | None]:
    """Send gradients back from `outputs`. With `wanted`, return what arrives there; else add what arrives at leaves.

    `since` makes it a part of another backward: steps made before that are not run, and hooks on leaves are left to that.
    """
    with provided.at_once(), suspended():
        return _send(outputs, seeds, retain_graph, create_graph, wanted, blocked, since)


class _Presence:
    """In a traced function: which gradients are there for some calls only, since a branch or loop of the program decides
    (`lowering/gradients/presence.py`).
    """

    def __init__(self) -> None:
        from polyreme.lowering.gradients import presence

        self.of = presence
        self.sometimes: dict[Any, Any] = {}  # by the place that they arrived at

    def arrives(self, key: Any, value: Any, first: bool) -> Any:
        """The gradient that a step has sent to a place."""
        value, there = value if value.__class__ is self.of.Sometimes else (value, None)
        there = there if first else self.of.either(self.sometimes.pop(key, None), there)
        if there is not None:
            self.sometimes[key] = there
        return value

    def sent(self, node: Node, keys: Sequence[Any], values: Sequence[Any]) -> Sequence[Any]:
        """What a step sends, which had gradients at these places: zeros where there were none."""
        arrived = self.of.any_of(self.sometimes.get(key) for key in keys)
        if arrived is None:
            return values
        made: list[Any] = []
        for value in values:
            if value is not None:
                value, there = value if value.__class__ is self.of.Sometimes else (value, None)
                if not (isinstance(node, OpNode) and self.of.keeps_zeros(node.cls)):
                    value = self.of.masked(_emit, value, arrived)
                value = self.of.Sometimes(value, self.of.both(_emit, there, arrived))
            made.append(value)
        return made


def _send(
    outputs: Sequence[Tensor],
    seeds: Sequence[Tensor | None],
    retain_graph: bool,
    create_graph: bool,
    wanted: Sequence[Tensor] | None,
    blocked: Sequence[Tensor],
    since: int | None,
) -> list[Tensor | None]:
    arrived: dict[Any, Any] = {}  # by (id of node or leaf, output number): tensors, or arrays of steps that are not recorded
    leaves: dict[int, Tensor] = {}
    waiting: list[tuple[int, int, Node]] = []
    queued: set[int] = set()
    blocked_keys = {_key(t) for t in blocked}
    wanted_keys = {_key(t) for t in wanted} if wanted is not None else set()
    reaching = _reaching(outputs, wanted_keys) if wanted is not None else None
    edges, watchers = _watched_edges(outputs) if _watched and wanted is None else ({}, [])
    presence = _Presence() if provided.active_trace() is not None else None
    first_paddle = MANNER.paddle_1 and wanted is None and since is None
    passed: dict[Any, weakref.ref[Tensor]] = {}  # in the manner of Paddle 1: tensors that are no leaves, by where their gradients arrive

    def deliver(edge: Any, value: Any) -> None:
        leaf = edge.__class__ is not tuple
        node, number = (edge, 0) if leaf else edge
        place = id(node)
        key = (place, number)
        if key in blocked_keys:
            return
        held = arrived.get(key)
        if presence is not None:
            value = presence.arrives(key, value, held is None)
        arrived[key] = value if held is None else _sum(held, value)
        if leaf:
            leaves[place] = edge
        elif place not in queued and (reaching is None or place in reaching) and (since is None or node.sequence >= since):
            queued.add(place)
            heapq.heappush(waiting, (-node.sequence, len(queued), node))

    def settle(leaf: Tensor) -> None:
        """All gradients of the leaf have arrived."""
        key = (id(leaf), 0)
        arrived[key] = as_tensor(arrived[key])
        if leaf._hooks and since is None:
            arrived[key] = _of_same_shape(leaf, arrived[key], call_hooks(leaf._hooks, arrived[key]))
        if wanted is None:
            if presence is not None and key in presence.sometimes:
                provided.active_trace().retain(leaf, True)
            if first_paddle:
                leaf._grad = None
            accumulate(leaf, arrived[key])
            if watchers and id(leaf) in edges:
                watcher_of(leaf).ready(leaf)

    with recording(create_graph):
        for watcher in watchers:
            watcher.begin(edges)
        left = dict(edges)
        for tensor, seed in zip(outputs, seeds, strict=True):
            edge = edge_of(tensor)
            if edge is None:
                raise RuntimeError(
                    f"expected a tensor with stop_gradient=False but backward started at one (shape {list(tensor.shape)}) that needs no "
                    f"gradient"
                )
            if seed is None:
                seed = provided.full(tensor.type.shape, 1, tensor.type.dtype)
            elif seed.shape != tensor.shape:
                raise AssertionError(f"expected a gradient of shape {list(tensor.shape)} but got {list(seed.shape)}")
            elif seed.type.dtype != tensor.type.dtype:
                seed = provided.cast_to(seed, tensor.type.dtype)
            deliver(edge, seed)
            if first_paddle:
                passed[_key(tensor)] = weakref.ref(tensor)
        while waiting:
            _, _, node = heapq.heappop(waiting)
            grads: list[Any] = []
            for i in range(node.outputs):
                key = (id(node), i)
                value = arrived.get(key) if key in wanted_keys else arrived.pop(key, None)
                if value is not None and node.hooks and i in node.hooks:
                    value = call_hooks(node.hooks[i], as_tensor(value))
                    if key in wanted_keys:
                        arrived[key] = value
                if node.retained and value is not None and i in node.retained and wanted is None:
                    kept = node.retained[i]()
                    if kept is not None:
                        accumulate(kept, as_tensor(value))
                if key in passed and value is not None and not (node.retained and i in node.retained):
                    kept = passed[key]()
                    if kept is not None:
                        kept._grad = None
                        accumulate(kept, as_tensor(value))
                grads.append(value)
            if first_paddle:
                passed.update({_key(t): weakref.ref(t) for t in node.taken() if t is not None and t._node is not None})
            sent = node.backward(grads)
            if presence is not None:
                sent = presence.sent(node, [(id(node), i) for i, grad in enumerate(grads) if grad is not None], sent)
            for edge, value in zip(node.edges, sent, strict=True):
                if edge is not None and value is not None:
                    if isinstance(value, StaleTensor):
                        raise RuntimeError(value.message)
                    deliver(edge, value)
                if left and edge is not None and id(edge) in left:
                    left[id(edge)] -= 1
                    # A leaf that backward also starts from is not complete by its edges alone.
                    if not left[id(edge)] and id(edge) in leaves and all(edge is not t for t in outputs):
                        settle(leaves.pop(id(edge)))
            if not retain_graph:
                node.free()
        for leaf in leaves.values():
            settle(leaf)
        for watcher in watchers:
            watcher.finish()
    return as_tensors([arrived.get(_key(t)) for t in wanted]) if wanted is not None else []


def _reaching(outputs: Sequence[Tensor], wanted: set[Any]) -> set[int]:
    """The nodes through which a wanted tensor is reached: only these are run for `grad`."""
    nodes: dict[int, Node] = {}
    stack = [t._node for t in outputs if t._node is not None]
    while stack:
        node = stack.pop()
        if id(node) not in nodes:
            nodes[id(node)] = node
            stack += [e[0] for e in node.edges if isinstance(e, tuple)]
    # What is behind a step that kept nothing is not known any more: to run it is the error that says so.
    useful = {number for number, node in nodes.items() if node.is_free() and not node.edges}
    # Inputs come before the nodes that use them, so one pass in order of making settles all.
    for node in sorted(nodes.values(), key=lambda n: n.sequence):
        for edge in node.edges:
            if edge is None:
                continue
            key = (id(edge[0]), edge[1]) if isinstance(edge, tuple) else (id(edge), 0)
            if key in wanted or key[0] in useful:
                useful.add(id(node))
                break
    return useful


def call_hooks(hooks: dict[int, Callable[..., Any]], value: Tensor) -> Tensor:
    """Each hook may return a gradient to go on with in place of its argument."""
    for hook in list(hooks.values()):
        changed = hook(value)
        if changed is not None:
            value = changed
    return value


def _of_same_shape(leaf: Tensor, gradient: Tensor, hooked: Tensor) -> Tensor:
    """What the hooks of a leaf made of its gradient. Where that was rows of a table, they may have made something of another shape of them.
    """
    if isinstance(gradient, SelectedRows) and not isinstance(hooked, SelectedRows) and hooked.shape != leaf.shape:
        raise ValueError(
            f"expected a hook to return rows or a gradient of shape {list(leaf.shape)} for '{leaf.name}', a table that was read with "
            f"sparse=True, but got one of shape {list(hooked.shape)}"
        )
    return hooked


def accumulate(tensor: Tensor, value: Tensor) -> None:
    """Add a gradient to what a leaf has."""
    if (recorder := provided.active_trace()) is not None:
        recorder.retain(tensor)
    held = tensor._grad
    name = f"{tensor._name or tensor.name}@GRAD"
    if isinstance(held, SelectedRows) or isinstance(value, SelectedRows):
        made = value if held is None else added(held, value, provided.add)
        tensor._grad = made = made.clone()
        made._name, made.stop_gradient = name, False
        return
    if held is not None:
        replaces = not is_grad_enabled() and provided.is_cleared(held) and held.type == value.type
        if not replaces:
            value = provided.add(held, value)
        # Paddle adds into a gradient that it has made itself, so that those who keep the tensor see it; not where a graph of gradients goes
        # on.
        if held._name == name and not is_grad_enabled():
            provided.assign(held, value)
            return
        if replaces:
            value = type(value)._wrap(value._value, value._type)
        value._name, value.stop_gradient = name, held.stop_gradient
        tensor._grad = value
        return
    # The gradient may have come from a hook, or go to several leaves: each has a tensor of its own.
    fresh = value.clone() if is_grad_enabled() else type(value)._wrap(value._value, value._type)
    fresh._name, fresh.stop_gradient = name, False
    tensor._grad = fresh
