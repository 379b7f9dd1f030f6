"""Compiling: the programs of segments and graphs, what is told to XLA, and the programs that are kept."""
