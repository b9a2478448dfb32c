"""Paddle's operators on images, and on regions and boxes in them."""
