"""`paddle.optimizer`: optimizers and learning-rate schedules."""

from typing import TYPE_CHECKING

from polyreme.names import absent_from, listed
from polyreme.optimizer import lr
from polyreme.optimizer.algorithms import ASGD, SGD, Adadelta, Adagrad, Adam, Adamax, AdamW, Lamb, Momentum, NAdam, RAdam, RMSProp, Rprop
from polyreme.optimizer.lbfgs import LBFGS
from polyreme.optimizer.optimizer import Optimizer

__all__ = [
    "ASGD",
    "LBFGS",
    "SGD",
    "Adadelta",
    "Adagrad",
    "Adam",
    "AdamW",
    "Adamax",
    "Lamb",
    "Momentum",
    "NAdam",
    "Optimizer",
    "RAdam",
    "RMSProp",
    "Rprop",
    "lr",
]

if not TYPE_CHECKING:
    # Not for type checkers, which would take any name for one that there is.
    __getattr__, __dir__ = absent_from(__name__), listed(__name__)
