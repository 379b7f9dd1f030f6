"""Texts of Wikipedia's articles as rows of words' numbers, for models of language."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from mxjax import settings
from mxjax.errors import FormatError, MXNetError, MXNetFileNotFoundError, MXNetValueError

from ....files.unpacking import unpack
from ...data._host import host_view, to_array
from ...data.dataset import Dataset, _read
from ...utils import _get_repo_file_url, check_sha1, download
from ._constants import EOS_TOKEN

__all__ = ["WikiText103", "WikiText2"]


class _WikiText(Dataset):
    """Rows of `seq_len` words' numbers, each with the row that is one word ahead."""

    _namespace: str
    _archive: tuple[str, str]
    _files: dict[str, tuple[str, str]]

    def __init__(
        self, root: str | None = None, segment: str = "train", vocab: Any = None, seq_len: int = 35
    ):
        if segment not in self._files:
            raise MXNetValueError(
                f"{type(self).__name__}: segment is one of {', '.join(self._files)}, got {segment!r}"
            )
        if root is None:
            root = os.path.join(str(settings.get("data.home")), "datasets", self._namespace)
        self._root = os.path.expanduser(root)
        self._segment = segment
        self._seq_len = int(seq_len)
        self._vocab = vocab
        self._counter: Any = None
        numbers = self._numbers(self._file())
        rows = (len(numbers) - 1) // self._seq_len
        if rows < 1:
            raise FormatError(
                f"{self._file()} has {len(numbers)} words: not enough for a row of {self._seq_len}"
            )
        count = rows * self._seq_len
        self._data = to_array(numbers[:count].reshape(rows, -1))
        self._label = to_array(numbers[1 : count + 1].reshape(rows, -1))

    @property
    def vocabulary(self) -> Any:
        """The `mx.contrib.text.vocab.Vocabulary` that numbers the words."""
        return self._vocab

    @property
    def frequencies(self) -> Any:
        """How often each word is in the text, a `collections.Counter`."""
        return self._counter

    def __getitem__(self, idx: Any) -> Any:
        return _read(self._data, idx), _read(self._label, idx)

    def __len__(self) -> int:
        return len(self._label)

    def _for_worker(self) -> _WikiText:
        twin = self.__class__.__new__(self.__class__)
        twin.__dict__.update(
            self.__dict__, _data=host_view(self._data), _label=host_view(self._label)
        )
        return twin

    def _numbers(self, path: str) -> np.ndarray:
        from mxjax.contrib.text import utils, vocab

        try:
            with open(path, encoding="utf8") as file:
                content = file.read()
        except UnicodeDecodeError as error:
            raise FormatError(f"{path} is no text in UTF-8: {error}") from None
        self._counter = utils.count_tokens_from_str(content)
        if self._vocab is None:
            self._vocab = vocab.Vocabulary(counter=self._counter, reserved_tokens=[EOS_TOKEN])
        words = [
            word
            for line in content.splitlines()
            if line.strip()
            for word in (*line.split(), EOS_TOKEN)
        ]
        return np.array(self._vocab.to_indices(words), np.int32)

    def _file(self) -> str:
        """The file's path, after a download if it is not there."""
        name, sha1 = self._files[self._segment]
        path = os.path.join(self._root, name)
        if os.path.exists(path) and check_sha1(path, sha1):
            return path
        archive, archive_sha1 = self._archive
        url = _get_repo_file_url(f"gluon/dataset/{self._namespace}", archive)
        try:
            packed = download(
                url, path=os.path.join(self._root, archive), sha1_hash=archive_sha1, retries=1
            )
        except MXNetError as error:
            raise MXNetFileNotFoundError(
                f"{type(self).__name__} needs {name} (or {archive}) in {self._root}, and {error}. Put it there (root= "
                "or the setting data.home, MXNET_HOME, name another folder), or let MXNET_GLUON_REPO name a "
                "repository that can be reached; file:// addresses work"
            ) from error
        unpack(packed, {name: path}, {name: sha1})
        return path


class WikiText2(_WikiText):
    """Two million words of good articles.

    A sample is (words, the words one ahead), both (seq_len,) in int32; each line ends with the word `<eos>`.

    Args:
      root: the folder of the file, or of its archive; if None `datasets/wikitext-2` in the folder that the setting
        `data.home` (MXNET_HOME) names. What is absent is fetched from the repository of `data.repo` (MXNET_GLUON_REPO).
      segment: `train`, `validation` or `test`.
      vocab: numbers the words; without it one is made of the text.
      seq_len: words of a sample.

    Raises:
      MXNetFileNotFoundError: the file is neither there nor to be fetched; the message says what to put where.

    Merity, Xiong, Bradbury, Socher: Pointer Sentinel Mixture Models, 2016.
    """

    _namespace = "wikitext-2"
    _archive = ("wikitext-2-v1.zip", "3c914d17d80b1459be871a5039ac23e752a53cbe")
    _files = {
        "train": ("wiki.train.tokens", "863f29c46ef9d167fff4940ec821195882fe29d1"),
        "validation": ("wiki.valid.tokens", "0418625c8b4da6e4b5c7a0b9e78d4ae8f7ee5422"),
        "test": ("wiki.test.tokens", "c7b8ce0aa086fb34dab808c5c49224211eb2b172"),
    }


class WikiText103(_WikiText):
    """A hundred million words of good articles; samples, arguments and errors are those of `WikiText2`."""

    _namespace = "wikitext-103"
    _archive = ("wikitext-103-v1.zip", "0aec09a7537b58d4bb65362fee27650eeaba625a")
    _files = {
        "train": ("wiki.train.tokens", "b7497e2dfe77e72cfef5e3dbc61b7b53712ac211"),
        "validation": ("wiki.valid.tokens", "c326ac59dc587676d58c422eb8a03e119582f92b"),
        "test": ("wiki.test.tokens", "8a5befc548865cec54ed4273cf87dbbad60d1e47"),
    }
