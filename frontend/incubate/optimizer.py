"""`paddle.incubate.optimizer`."""

from polyreme.optimizer.algorithms import LarsMomentumOptimizer
from polyreme.optimizer.lbfgs import LBFGS

__all__ = ["LBFGS", "LarsMomentumOptimizer"]
