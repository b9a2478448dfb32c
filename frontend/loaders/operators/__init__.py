"""What Paddle's operators mean, by subject; see `loaders.meaning` for how a row is read."""

from polyreme.loaders.operators import activation, arithmetic, create, layers, loss, places, quantize, recurrent, resize, shape

SUBJECTS = (activation, arithmetic, create, layers, loss, places, quantize, recurrent, resize, shape)
