"""`paddle.incubate.optimizer`."""

from polyreme.names import listed
from polyreme.optimizer.algorithms import LarsMomentumOptimizer
from polyreme.optimizer.lbfgs import LBFGS

__all__ = ["LBFGS", "LarsMomentumOptimizer"]

__dir__ = listed(__name__)
