"""Whole programs of the years 2018 to 2020, which Paddle 1.8.5 and this project both run."""
