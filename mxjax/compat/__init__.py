"""MXNet's modules and their names: which module of this package each is, and what is left out on purpose."""
