"""`fluid.Trainer`: the loop over epochs and batches, with events, checkpoints and tests, of a network that two functions describe; and
`fluid.Inferencer`, which predicts with it.
"""

from polyreme.fluid.trainer.events import BeginEpochEvent, BeginStepEvent, EndEpochEvent, EndStepEvent
from polyreme.fluid.trainer.inference import Inferencer
from polyreme.fluid.trainer.keeping import CheckpointConfig
from polyreme.fluid.trainer.training import Trainer
from polyreme.names import listed

__all__ = ["BeginEpochEvent", "BeginStepEvent", "CheckpointConfig", "EndEpochEvent", "EndStepEvent", "Inferencer", "Trainer"]


__dir__ = listed(__name__)
