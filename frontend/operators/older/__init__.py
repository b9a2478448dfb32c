"""Operators that Paddle had before Paddle 2, or has otherwise since."""
