"""Passes that rewrite a function at one level: layouts, fusion, cleaning up, cutting at what the host runs."""
