"""Networks and arrays of JAX, Flax and PyTorch in Gluon."""
