"""Functions of `paddle.static` that are made of other ones: metrics, averages of parameters, tensor arrays, files, `Print`."""
