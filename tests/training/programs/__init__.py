"""Programs that train, written as people write them, in Paddle's words: each runs under Paddle and under Polyreme, eagerly or compiled."""

from tests.training.programs import changes, gradients, inner_steps, losses, nets, rates, sequences, weights
from tests.training.programs.driver import PROGRAMS

__all__ = ["PROGRAMS", "changes", "gradients", "inner_steps", "losses", "nets", "rates", "sequences", "weights"]
