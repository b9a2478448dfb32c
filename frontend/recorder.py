"""Who takes ops in place of eager execution: a trace, the current block of a static program, or a segment of ops that run later."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from polyreme import views
from polyreme.ir.core import Op
from polyreme.ir.dims import Dim
from polyreme.ir.types import ScalarType, TensorType
from polyreme.tensor import Tensor

if TYPE_CHECKING:
    from polyreme.dispatch import CallPlan

__all__ = ["Gathering", "Recorder", "told_at"]


def told_at(location: object, error: Callable[[int, int, int], Exception]) -> str:
    """Where positions are read that a run tells of, as `nn.within` has it; with what `error` says, if that is the same of all positions:
    there they only stand for a mistake.
    """
    one, other = (str(error(*numbers)) for numbers in ((0, 1, 1), (2, 3, 1)))
    return f"{location} because {one}" if one and one == other else str(location)


class Recorder(ABC):
    """What dispatch hands ops and writes to. What a recorder does not say itself is as where the tape knows all gradients, and sizes are
    known.
    """

    taped = False
    """Whether steps are put on the tape, too: a static program is differentiated from its operators instead."""
    learns_sizes = False
    """Whether sizes that an op needs to be equal, and that may be, are equal from there on."""

    @abstractmethod
    def emit(self, cls: type[Op], operands: Sequence[Any], attributes: dict[str, Any]) -> Any:
        """Record the op and return a tensor for its result, or a tuple of them. Operands are tensors of any kind, None, or sequences of
        tensors.
        """

    @abstractmethod
    def assign(self, tensor: Tensor, value: Tensor) -> None:
        """Record that `tensor` (perhaps an eager one, such as a running mean) has the contents of `value` from here on."""

    def follow(self, tensor: Tensor, value: Tensor) -> None:
        """As `assign`, of a tensor that shares contents with one that was assigned to (see `views.py`): once the ops have run it follows by
        itself.
        """
        self.assign(tensor, value)

    def turn(self, tensor: Tensor) -> None:  # noqa: B027
        """Called before `tensor` comes to see its contents in another shape or order; an error where that cannot be recorded."""

    def turned(  # noqa: B027
        self,
        tensor: Tensor,
        made: Tensor,
        before: Tensor,
        make: Callable[..., Tensor],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> None:
        """Record that `tensor`, for which `before` stands now, is about to see its contents as `made`, which is what `make(before, *args,
        **kwargs)` gave.
        """

    def is_reachable(self, tensor: Tensor) -> bool:
        """Whether ops recorded from here on can read `tensor`. What was made in a body that is over, of a branch or loop, they cannot."""
        return True

    def shares(self, tensor: Tensor, count: int) -> None:  # noqa: B027
        """Record that `tensor`, which the last `count` ops have made, one of the other, shares contents with what they were made of: they
        made no copy.
        """

    def alias(self, tensor: Tensor) -> Tensor:
        """Another tensor that is what `tensor` is now, and stays that, with its place in the graph."""
        return views.alias(tensor)

    def contents(self, tensor: Tensor) -> Tensor:
        """What a tensor has now, without its place in the graph."""
        return views.without_place(self.alias(tensor))

    def apart(self, tensor: Tensor) -> None:  # noqa: B027
        """Record that `tensor`, whose contents are those of another one, is no part of the graph: if it needs gradients later, it is a
        leaf.
        """


    def custom_gradient(
        self,
        values: Sequence[Tensor],
        inputs: Sequence[Tensor],
        rule: Callable[..., Sequence[Tensor | None]],
        function: Callable[..., Any] | None,
        what: str,
        takes_zeros: bool = True,
    ) -> Sequence[Tensor]:
        """Record that the gradients of `values` go to `inputs` as `rule(*gradients)` has it, which calls the user's `function`: tensors in
        place of `values`.

        It takes zeros for a gradient that there is none of where it `takes_zeros`, and None elsewhere.
        """
        return values

    def hook(self, tensor: Tensor, hook: Callable[[Tensor], Tensor | None]) -> Callable[[], None] | None:
        """Record that the gradient of `tensor` passes through the hook. What is returned takes it off again, if there is more to do than to
        forget it on the tape.
        """
        return None

    def retain(self, tensor: Tensor, sometimes: bool = False) -> None:  # noqa: B027
        """Record that the gradient of `tensor` is kept, which is there for some calls only if `sometimes`."""

    def each_time(self, key: Any, make: Callable[[], Tensor], name: str) -> Tensor:
        """What `make` gives whenever the ops run; `key` is another one for each thing that it may give."""
        return make()

    def expect(self, condition: Tensor) -> bool:
        """Whether a step of training may go on as for calls in which `condition` holds."""
        return bool(condition)

    def check_values(self, condition: Callable[[], Tensor], error: Exception) -> None:
        """Raise the error where a condition does not hold whenever the ops run."""
        if not bool(condition()):
            raise error

    def create_parameter(self, name: str, shape: tuple[int, ...], dtype: ScalarType, initializer: Any) -> Any:
        """A parameter that lives where the ops go, filled by `initializer` before they run; None to make an eager one."""
        return None

    def learn_sizes(self, equations: Sequence[tuple[Dim, Dim]]) -> bool:
        """Record that the sizes of each pair are equal from here on, where `learns_sizes`; whether they can be."""
        return False

    def require(self, size: Dim) -> None:  # noqa: B027
        """Record that each call has to check that `size` is not negative, where `learns_sizes`."""

    def note_copy(self, made: Tensor, x: Tensor, size: Dim) -> None:  # noqa: B027
        """Record that `made` is a copy of `x` where `size` is at least 2, and else shares its contents."""

    def note_choice(self, made: Tensor, olds: Sequence[Tensor]) -> None:  # noqa: B027
        """Record that Python would have `made` as one of several tensors, `olds` among them, or as a view of one."""

    def aligned(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        """The operands of an operator of Python, with their axes as broadcasting has them, the last ones under each other."""
        return x, y

    # Whether ops that read or write at positions stay what they are until something looks at the positions there.
    keeps_reads = False

    def check_within(self, positions: Tensor, size: Dim, error: Callable[[int, int, int], Exception], wraps: bool) -> Tensor:
        """The positions. Record that `error(lowest, highest, size)` is raised where `positions` are not those of an axis of `size`; see
        `math.common.check_within`.
        """
        return positions

    def keep_rows(self) -> Callable[[], NoReturn] | None:
        """Record that a table is read whose gradient is the rows that were read; None where it is whole. What is returned is called where
        somebody asks which rows these are, and raises.
        """
        return None

    @abstractmethod
    def fresh_size(self) -> Dim:
        """A name for a size that is known once the op recorded next has run."""

    def operator(
        self,
        type: str,
        inputs: Mapping[str, Tensor | None],
        outputs: Mapping[str, Tensor | TensorType | Sequence[TensorType]],
        attributes: Mapping[str, Any],
    ) -> dict[str, Any] | None:
        """What `type`, an operator of Paddle's with these slots, writes: into a tensor of `outputs`, or into a new one of a type there, or
        a list of new ones.

        None where ops are recorded instead. For what Paddle's programs have as one operator that can be changed after, such as a batch
        norm.
        """
        return None


class Gathering(Recorder):
    """A recorder of ops that only run later: functions of the API do as in eager mode, and whoever looks at a value has it computed."""

    @abstractmethod
    def gather(self, plan: CallPlan, operands: Sequence[Any]) -> Any:
        """As `emit`, of a call that is planned."""

    @abstractmethod
    def number(self, value: Any, dtype: ScalarType) -> Tensor:
        """A tensor of rank 0 of a number of Python's, which may be another one at the next call."""

    @abstractmethod
    def changed(self, tensor: Tensor) -> None:
        """Note that `tensor` has another version: it is written to, or seen otherwise."""

    @abstractmethod
    def flush(self, reason: str = "") -> None:
        """Run what was gathered. `reason` says why the user's code needs it, if it does."""
