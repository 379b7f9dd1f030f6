"""Interpreting: calls computed by NumPy from a trace for all sizes, without a program."""
