"""`paddle.optimizer`: optimizers and learning-rate schedules."""

from typing import TYPE_CHECKING

from polyreme.names import absent_from
from polyreme.optimizer import lr
from polyreme.optimizer.algorithms import SGD, Adadelta, Adagrad, Adam, Adamax, AdamW, Lamb, Momentum, RMSProp
from polyreme.optimizer.lbfgs import LBFGS
from polyreme.optimizer.optimizer import Optimizer

__all__ = ["LBFGS", "SGD", "Adadelta", "Adagrad", "Adam", "AdamW", "Adamax", "Lamb", "Momentum", "Optimizer", "RMSProp", "lr"]

if not TYPE_CHECKING:
    # Not for type checkers, which would take any name for one that there is.
    __getattr__ = absent_from(__name__)
