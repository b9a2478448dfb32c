"""Observers: what chooses a scale from the tensors that pass in calibration. Those beyond Paddle's two have the names that PaddleSlim gives
them.
"""

from polyreme.names import listed
from polyreme.quantization.observers.histograms import HistObserver, KLObserver, MSEObserver
from polyreme.quantization.observers.maxima import AbsmaxObserver, AVGObserver
from polyreme.quantization.observers.weights import AbsMaxChannelWiseWeightObserver, GroupWiseWeightObserver, MSEChannelWiseWeightObserver

__all__ = [
    "AVGObserver",
    "AbsMaxChannelWiseWeightObserver",
    "AbsmaxObserver",
    "GroupWiseWeightObserver",
    "HistObserver",
    "KLObserver",
    "MSEChannelWiseWeightObserver",
    "MSEObserver",
]

__dir__ = listed(__name__)
