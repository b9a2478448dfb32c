"""`paddle.incubate.optimizer`."""

from polyreme.names import listed
from polyreme.optimizer.algorithms import LarsMomentumOptimizer
from polyreme.optimizer.lbfgs import LBFGS
from polyreme.optimizer.lookahead import LookAhead

__all__ = ["LBFGS", "LarsMomentumOptimizer", "LookAhead"]

__dir__ = listed(__name__)
