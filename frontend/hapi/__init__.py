"""The high-level interface: what a network looks like and costs, and training it without writing the loop."""
