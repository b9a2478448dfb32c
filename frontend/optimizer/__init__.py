"""`paddle.optimizer`: optimizers and learning-rate schedules."""

from polyreme.optimizer import lr
from polyreme.optimizer.algorithms import SGD, Adadelta, Adagrad, Adam, Adamax, AdamW, Momentum, RMSProp
from polyreme.optimizer.optimizer import Optimizer

__all__ = ["SGD", "Adadelta", "Adagrad", "Adam", "AdamW", "Adamax", "Momentum", "Optimizer", "RMSProp", "lr"]
