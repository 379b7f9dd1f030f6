"""Vectors of tokens: read from files that others trained, cut to a vocabulary, put side by side."""

from __future__ import annotations

import logging
import os
import warnings
from array import array
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from mxjax import nd, registry, settings, util
from mxjax.errors import FormatError, MXNetAssertionError, MXNetKeyError, MXNetValueError
from mxjax.files.unpacking import unpack
from mxjax.gluon.utils import _get_repo_file_url, check_sha1, download

from . import vocab
from .vocab import UNKNOWN_IDX, Vocabulary

__all__ = [
    "CompositeEmbedding",
    "CustomEmbedding",
    "FastText",
    "GloVe",
    "create",
    "get_pretrained_file_names",
    "register",
]

_log = logging.getLogger(__name__)


@cache
def _repository(kind: str) -> tuple[Mapping[str, str], Mapping[str, str]]:
    """SHA-1 of each file with vectors of a kind, and of each archive that they come in."""
    lines = Path(__file__).with_name("files.txt").read_text(encoding="utf-8").splitlines()
    rows = [line.split() for line in lines if line.startswith(f"{kind} ")]
    return MappingProxyType({row[1]: row[2] for row in rows}), MappingProxyType(
        {row[3]: row[4] for row in rows}
    )


def register(embedding_cls: type) -> type:
    """Enter a subclass of `_TokenEmbedding` under its name, for `create`; a decorator."""
    return registry.get_register_func(_TokenEmbedding, "token embedding")(embedding_cls)


def create(embedding_name: str, **kwargs: Any) -> Any:
    """The token embedding of a name (`glove`, `fasttext`, or one that was registered).

    Args:
      embedding_name: in any case.
      kwargs: arguments of its class.
    """
    return registry.get_create_func(_TokenEmbedding, "token embedding")(embedding_name, **kwargs)


def get_pretrained_file_names(embedding_name: str | None = None) -> Any:
    """The files with vectors that there are: of one kind a list, of all a dict from the kind's name.

    Raises:
      KeyError: no kind of this name.

    >>> get_pretrained_file_names("glove")[1]
    'glove.6B.50d.txt'
    """
    kinds: dict[str, Any] = registry.get_registry(_TokenEmbedding)
    if embedding_name is None:
        return {name: list(kind.pretrained_file_name_sha1) for name, kind in kinds.items()}
    if embedding_name not in kinds:
        raise MXNetKeyError(
            f"no token embedding is called {embedding_name!r}; there are {', '.join(sorted(kinds))}"
        )
    return list(kinds[embedding_name].pretrained_file_name_sha1)


class _TokenEmbedding(Vocabulary):
    """A vocabulary with a vector for each token; the one of unknown tokens is the first.

    Attributes:
      idx_to_vec: the vectors, an array (tokens, vec_len) of float32.
      vec_len: the length of a vector.
    """

    pretrained_file_name_sha1: Mapping[str, str] = MappingProxyType({})
    _vec_len: int
    _idx_to_vec: Any

    @property
    def vec_len(self) -> int:
        """The length of a vector."""
        return self._vec_len

    @property
    def idx_to_vec(self) -> Any:
        """The vectors in the order of the tokens' numbers."""
        return self._idx_to_vec

    def get_vecs_by_tokens(self, tokens: Any, lower_case_backup: bool = False) -> Any:
        """The vector of a token (vec_len,), or those of a list of tokens (tokens, vec_len).

        Args:
          lower_case_backup: look for a token in lower case where it is not there as it is.
        """
        known = self.token_to_idx
        asked = tokens if isinstance(tokens, list) else [tokens]
        if lower_case_backup:
            asked = [token if token in known else token.lower() for token in asked]
        rows = util.default_array(np.array(self.to_indices(asked), np.int32), dtype="int32")
        vectors = self._idx_to_vec.take(rows, axis=0)
        return vectors if isinstance(tokens, list) else vectors[0]

    def update_token_vectors(self, tokens: Any, new_vectors: Any) -> None:
        """Give tokens other vectors.

        Args:
          tokens: a token, or a list of them.
          new_vectors: an array (tokens, vec_len); of one token also (vec_len,).

        Raises:
          ValueError: a token is not there; the unknown token changes by its own name only.
          AssertionError: vectors of another shape.
        """
        asked = tokens if isinstance(tokens, list) else [tokens]
        shape = getattr(new_vectors, "shape", None)
        fitting = [(len(asked), self.vec_len)] + [(self.vec_len,)] * (len(asked) == 1)
        if not isinstance(new_vectors, nd.NDArray) or shape not in fitting:
            raise MXNetAssertionError(
                f"new_vectors must be an array of shape {' or '.join(map(str, fitting))}, got "
                f"{type(new_vectors).__name__} {shape or ''}"
            )
        for token in asked:
            if token not in self.token_to_idx:
                raise MXNetValueError(
                    f"token {token!r} is unknown; the vector of unknown tokens is that of {self.unknown_token!r}"
                )
        rows = util.default_array(np.array(self.to_indices(asked), np.int32), dtype="int32")
        self._idx_to_vec[rows] = new_vectors.reshape((len(asked), self.vec_len))

    # ---- how they come about

    def _load_embedding(
        self,
        pretrained_file_path: str,
        elem_delim: str,
        init_unknown_vec: Any,
        encoding: str = "utf8",
    ) -> None:
        """Read all tokens with their vectors; the first of a token counts, others are warned of."""
        path = os.path.expanduser(pretrained_file_path)
        if not os.path.isfile(path):
            raise MXNetValueError(f"there is no file of token vectors {path}")
        _log.info("Loading pre-trained token embedding vectors from %s", path)
        values = array("f")
        special: dict[Any, Any] = dict.fromkeys(
            self._idx_to_token
        )  # unknown and reserved tokens: their vectors
        length = 0
        for number, token, vector in _lines(path, elem_delim, encoding):
            if token in self._token_to_idx:
                if special.get(token, vector) is not None:
                    self._warn(path, number, f"token {token!r} is there already")
                else:
                    special[token] = vector
            elif len(vector) == 1:
                self._warn(path, number, f"token {token!r} with one number is a header")
            else:
                length = length or len(vector)
                if len(vector) != length:
                    raise MXNetAssertionError(
                        f"{path}, line {number}: the vector of {token!r} has {len(vector)} numbers, "
                        f"those before have {length}"
                    )
                values.extend(vector)
                self._token_to_idx[token] = len(self._idx_to_token)
                self._idx_to_token.append(token)
        if not length:
            raise FormatError(
                f"{path} has no token vectors: lines of a token and its numbers were expected"
            )
        vectors = np.empty((len(self), length), np.float32)
        vectors[len(special) :] = np.frombuffer(values, np.float32).reshape(-1, length)
        for row, (token, found) in enumerate(special.items()):
            special_one = (
                init_unknown_vec(shape=length) if found is None else np.array(found, np.float32)
            )
            if np.shape(special_one) != (length,):
                raise MXNetAssertionError(
                    f"{path}: the vector of {token!r} has shape {np.shape(special_one)}, those of others ({length},)"
                )
            vectors[row] = (
                special_one.asnumpy() if isinstance(special_one, nd.NDArray) else special_one
            )
        self._set(vectors)

    @staticmethod
    def _warn(path: str, number: int, why: str) -> None:
        warnings.warn(f"{path}, line {number}: {why}; left out", UserWarning, stacklevel=5)

    def _set(self, vectors: np.ndarray) -> None:
        self._vec_len = vectors.shape[1]
        self._idx_to_vec = util.default_array(vectors)

    def _set_idx_to_vec_by_embeddings(
        self, token_embeddings: list[_TokenEmbedding], vocab_len: int, vocab_idx_to_token: list[Any]
    ) -> None:
        """Take for each of these tokens its vectors of all embeddings, side by side; subclasses override it."""
        tables = [each.idx_to_vec.asnumpy() for each in token_embeddings]
        rows = [
            [UNKNOWN_IDX, *each.to_indices(vocab_idx_to_token[1:vocab_len])]
            for each in token_embeddings
        ]
        self._set(
            np.concatenate([table[row] for table, row in zip(tables, rows, strict=True)], axis=1)
        )

    def _index_tokens_from_vocabulary(self, vocabulary: Vocabulary) -> None:
        """Index the tokens of a vocabulary; subclasses override it."""
        self._token_to_idx = dict(vocabulary.token_to_idx)
        self._idx_to_token = list(vocabulary.idx_to_token)
        self._unknown_token = vocabulary.unknown_token
        reserved = vocabulary.reserved_tokens
        self._reserved_tokens = None if reserved is None else list(reserved)

    def _take_from(self, embeddings: list[_TokenEmbedding], vocabulary: Vocabulary) -> None:
        self._set_idx_to_vec_by_embeddings(embeddings, len(vocabulary), vocabulary.idx_to_token)
        self._index_tokens_from_vocabulary(vocabulary)

    def _build_embedding_for_vocabulary(self, vocabulary: Vocabulary | None) -> None:
        if vocabulary is not None:
            self._take_from([self], _checked(vocabulary))

    # ---- where files come from

    @classmethod
    def _check_pretrained_file_names(cls, pretrained_file_name: str) -> None:
        if pretrained_file_name not in cls.pretrained_file_name_sha1:
            raise MXNetKeyError(
                f"{cls.__name__} has no file {pretrained_file_name!r}; it has "
                f"{', '.join(cls.pretrained_file_name_sha1)}"
            )

    @classmethod
    def _get_download_file_name(cls, pretrained_file_name: str) -> str:
        return pretrained_file_name

    @classmethod
    def _get_pretrained_file_url(cls, pretrained_file_name: str) -> str:
        name = cls._get_download_file_name(pretrained_file_name)
        return _get_repo_file_url(f"gluon/embeddings/{cls.__name__.lower()}", name)

    @classmethod
    def _get_pretrained_file(cls, embedding_root: str | None, pretrained_file_name: str) -> str:
        """The file's path, after a download if it is not there."""
        if embedding_root is None:
            embedding_root = os.path.join(str(settings.get("data.home")), "embeddings")
        folder = os.path.join(os.path.expanduser(embedding_root), cls.__name__.lower())
        path = os.path.join(folder, pretrained_file_name)
        sha1 = cls.pretrained_file_name_sha1[pretrained_file_name]
        if os.path.exists(path) and check_sha1(path, sha1):
            return path
        url = cls._get_pretrained_file_url(pretrained_file_name)
        archive = os.path.join(folder, os.path.basename(url))
        archives = getattr(cls, "pretrained_archive_name_sha1", None)
        download(
            url, archive, sha1_hash=sha1 if archives is None else archives[os.path.basename(url)]
        )
        if archive != path:
            unpack(archive, {pretrained_file_name: path}, {pretrained_file_name: sha1})
        return path


def _checked(vocabulary: Any) -> Vocabulary:
    if not isinstance(vocabulary, vocab.Vocabulary):
        raise MXNetAssertionError(
            f"vocabulary must be a mx.contrib.text.vocab.Vocabulary, got {type(vocabulary).__name__}"
        )
    return vocabulary


def _lines(path: str, delimiter: str, encoding: str) -> Iterator[tuple[int, str, list[float]]]:
    """Line number, token and numbers of each line."""
    number = 0
    try:
        with open(path, encoding=encoding) as lines:
            for number, line in enumerate(lines, 1):
                token, *numbers = line.rstrip().split(delimiter)
                if not numbers:
                    raise MXNetAssertionError(
                        f"{path}, line {number}: a token and its numbers were expected, divided by {delimiter!r}, "
                        f"here is {line[:80]!r}"
                    )
                yield number, token, [float(each) for each in numbers]
    except MXNetAssertionError:
        raise
    except ValueError as error:
        raise FormatError(
            f"{path}, line {number}: a token and its numbers were expected: {error}"
        ) from None


@register
class GloVe(_TokenEmbedding):
    """Vectors of words by GloVe.

    Args:
      pretrained_file_name: one of `get_pretrained_file_names("glove")`.
      embedding_root: the folder that has, or gets, the files; without it `embeddings` in the folder that the setting
        `data.home` (MXNET_HOME) names. A file is fetched from the repository of `data.repo` (MXNET_GLUON_REPO).
      init_unknown_vec: makes the vector of unknown tokens from `shape=`, where the file has none.
      vocabulary: index only the tokens of this one.

    Raises:
      KeyError: there is no such file.
      MXNetOSError: it cannot be fetched.

    Pennington, Socher, Manning: GloVe: Global Vectors for Word Representation, 2014.
    """

    pretrained_file_name_sha1, pretrained_archive_name_sha1 = _repository("glove")

    @classmethod
    def _get_download_file_name(cls, pretrained_file_name: str) -> str:
        corpus = pretrained_file_name.split(".")[1]
        return next(
            name for name in cls.pretrained_archive_name_sha1 if name.split(".")[1] == corpus
        )

    def __init__(
        self, pretrained_file_name: str = "glove.840B.300d.txt", embedding_root: str | None = None,
        init_unknown_vec: Any = nd.zeros, vocabulary: Vocabulary | None = None, **kwargs: Any,
    ):  # fmt: skip
        GloVe._check_pretrained_file_names(pretrained_file_name)
        super().__init__(**kwargs)
        path = GloVe._get_pretrained_file(embedding_root, pretrained_file_name)
        self._load_embedding(path, " ", init_unknown_vec)
        self._build_embedding_for_vocabulary(vocabulary)


@register
class FastText(_TokenEmbedding):
    """Vectors of words by fastText.

    Arguments and errors are those of `GloVe`; files are those of `get_pretrained_file_names("fasttext")`.

    Bojanowski, Grave, Joulin, Mikolov: Enriching Word Vectors with Subword Information, 2017.
    """

    pretrained_file_name_sha1, pretrained_archive_name_sha1 = _repository("fasttext")

    @classmethod
    def _get_download_file_name(cls, pretrained_file_name: str) -> str:
        return os.path.splitext(pretrained_file_name)[0] + ".zip"

    def __init__(
        self, pretrained_file_name: str = "wiki.simple.vec", embedding_root: str | None = None,
        init_unknown_vec: Any = nd.zeros, vocabulary: Vocabulary | None = None, **kwargs: Any,
    ):  # fmt: skip
        FastText._check_pretrained_file_names(pretrained_file_name)
        super().__init__(**kwargs)
        path = FastText._get_pretrained_file(embedding_root, pretrained_file_name)
        self._load_embedding(path, " ", init_unknown_vec)
        self._build_embedding_for_vocabulary(vocabulary)


class CustomEmbedding(_TokenEmbedding):
    """Vectors of tokens from a file of one's own: lines of a token and its numbers.

    Args:
      pretrained_file_path: the file.
      elem_delim: what is between a token and its numbers.
      encoding: of the file.
      init_unknown_vec, vocabulary: as in `GloVe`.

    Raises:
      ValueError: there is no such file, or a number is none (`FormatError`).
      AssertionError: a line has no numbers, or not as many as those before.

    >>> import os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "vectors.txt")
    >>> with open(path, "w") as file:
    ...     _ = file.write("a 1 2\\nb 3 4\\n")
    >>> CustomEmbedding(path).get_vecs_by_tokens(["b", "c"]).asnumpy().tolist()
    [[3.0, 4.0], [0.0, 0.0]]
    """

    def __init__(
        self, pretrained_file_path: str, elem_delim: str = " ", encoding: str = "utf8",
        init_unknown_vec: Any = nd.zeros, vocabulary: Vocabulary | None = None, **kwargs: Any,
    ):  # fmt: skip
        super().__init__(**kwargs)
        self._load_embedding(pretrained_file_path, elem_delim, init_unknown_vec, encoding)
        self._build_embedding_for_vocabulary(vocabulary)


class CompositeEmbedding(_TokenEmbedding):
    """The tokens of a vocabulary with their vectors of several embeddings, side by side.

    Args:
      vocabulary: the tokens.
      token_embeddings: one embedding, or a list of them.

    Raises:
      AssertionError: something else was given.
    """

    def __init__(self, vocabulary: Vocabulary, token_embeddings: Any):
        embeddings = token_embeddings if isinstance(token_embeddings, list) else [token_embeddings]
        for each in embeddings:
            if not isinstance(each, _TokenEmbedding):
                raise MXNetAssertionError(
                    f"token_embeddings must be embeddings as CustomEmbedding, got {type(each).__name__}"
                )
        self._take_from(embeddings, _checked(vocabulary))
