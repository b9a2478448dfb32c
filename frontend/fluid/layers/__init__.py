"""`fluid.layers`: functions that append operators to the default main program, or run at once inside `fluid.dygraph.guard()`."""

from polyreme.fluid.layers import (
    cells,
    control_flow,
    decoding,
    detection,
    distributions,
    dynamic_rnn,
    early_functions,
    elementwise,
    features,
    images,
    io,
    labelling,
    learning_rate_scheduler,
    loss,
    many_classes,
    metric_op,
    nn,
    ops,
    places,
    regions,
    sequence_lod,
    tensor,
)
from polyreme.fluid.layers import rnn as recurrent
from polyreme.fluid.layers.cells import *  # behind the module `rnn`, whose name a function of it has
from polyreme.fluid.layers.control_flow import *
from polyreme.fluid.layers.decoding import *
from polyreme.fluid.layers.detection import *
from polyreme.fluid.layers.distributions import *
from polyreme.fluid.layers.dynamic_rnn import *
from polyreme.fluid.layers.early_functions import *
from polyreme.fluid.layers.elementwise import *
from polyreme.fluid.layers.features import *
from polyreme.fluid.layers.images import *
from polyreme.fluid.layers.io import *
from polyreme.fluid.layers.labelling import *
from polyreme.fluid.layers.learning_rate_scheduler import *
from polyreme.fluid.layers.loss import *
from polyreme.fluid.layers.many_classes import *
from polyreme.fluid.layers.metric_op import *
from polyreme.fluid.layers.nn import *
from polyreme.fluid.layers.ops import *
from polyreme.fluid.layers.places import *
from polyreme.fluid.layers.regions import *
from polyreme.fluid.layers.rnn import *
from polyreme.fluid.layers.sequence_lod import *
from polyreme.fluid.layers.tensor import *
from polyreme.names import listed

__all__ = sorted(
    name
    for module in (
        cells, control_flow, decoding, detection, distributions, dynamic_rnn, early_functions, elementwise, features, images, io,
        labelling, learning_rate_scheduler, loss, many_classes, metric_op, nn, ops, places, recurrent, regions, sequence_lod, tensor,
    )  # fmt: skip
    for name in module.__all__
)

__dir__ = listed(__name__)
