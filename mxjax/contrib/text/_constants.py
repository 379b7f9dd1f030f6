"""MXNet's constants of texts: the hashes of the files with words' vectors, and where they are."""

from __future__ import annotations

from ...settings import table
from .embedding import _repository

UNKNOWN_IDX = 0
APACHE_REPO_URL = next(row.default for row in table() if row.name == "data.repo")

# MXNet calls the hashes of GloVe's archives those of its files, and the other way round.
GLOVE_PRETRAINED_ARCHIVE_SHA1, GLOVE_PRETRAINED_FILE_SHA1 = map(dict, _repository("glove"))
FAST_TEXT_FILE_SHA1, FAST_TEXT_ARCHIVE_SHA1 = map(dict, _repository("fasttext"))
