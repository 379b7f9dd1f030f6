"""Graphs: recorded segments with symbolic inputs, their text, their cuts, and the tape of derivatives."""
