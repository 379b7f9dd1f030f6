"""Running: when a segment runs, and as what: by NumPy, as a quick program, as an optimised one; waits and errors."""
