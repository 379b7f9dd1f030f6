"""`mx.contrib.text`: vocabularies, and vectors of words that somebody trained."""

from . import embedding, utils, vocab

__all__ = ["embedding", "utils", "vocab"]
