"""`paddle.incubate.distributed.fleet`: recomputation of a chain of Layers."""

from polyreme.distributed.fleet.recompute import recompute_sequential

__all__ = ["recompute_sequential"]
