"""Regions of images and boxes in them, as detectors use them: what `paddle.vision.ops` and operators of model files compute."""
