"""What MXNet leaves to NumPy of `mx.np.linalg`: its module of this name holds these functions."""

from .linalg import cond, matrix_power, multi_dot

__all__ = ["cond", "matrix_power", "multi_dot"]
