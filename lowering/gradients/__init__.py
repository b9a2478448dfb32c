"""Gradient rules, one file per family of `nn` ops; `lowering/autodiff.py` collects them."""
