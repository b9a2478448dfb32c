"""From tensors to buffers: which builder takes which root, where memory lies, and a `main` of calls."""
