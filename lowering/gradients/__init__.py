"""Gradient rules, one file per family of `nn` ops; `lowering/gradients/autodiff.py` collects them."""
