"""Programs that train, written as people write them, in Paddle's words: each runs under Paddle and under Polyreme, eagerly or compiled."""

from tests.training.programs import further, gradients, inner_steps, nets, rates, weights
from tests.training.programs.driver import PROGRAMS

__all__ = ["PROGRAMS", "further", "gradients", "inner_steps", "nets", "rates", "weights"]
