"""From what a model means to what is computed: `nn` ops as a few general `tensor` ops."""
