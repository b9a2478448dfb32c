"""Files of `fluid`: values of variables, checkpoints, models."""
