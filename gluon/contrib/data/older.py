"""The base that MXNet's datasets of texts have, for those of users."""

from __future__ import annotations

from collections import Counter
from typing import Any

from ...data.older import _DownloadedDataset
from ._constants import EOS_TOKEN

__all__: list[str] = []


class _LanguageModelDataset(_DownloadedDataset):
    """A dataset of texts, whose words a vocabulary numbers: `_get_data` sets `_data` and `_label`.

    Args:
      root: the folder of its files.
      namespace: which text.
      vocabulary: numbers the words; None makes one of the text.
    """

    def __init__(self, root: str, namespace: str, vocabulary: Any):
        self._vocab = vocabulary
        self._counter: Counter[str] | None = None
        self._namespace = namespace
        super().__init__(root, None)

    @property
    def vocabulary(self) -> Any:
        """What numbers the words."""
        return self._vocab

    @property
    def frequencies(self) -> Counter[str] | None:
        """How often each word is in the text."""
        return self._counter

    def _build_vocab(self, content: str) -> None:
        """Count the words of a text, and number them if nothing does."""
        from mxjax.contrib.text import utils, vocab

        if not self._counter:
            self._counter = utils.count_tokens_from_str(content)
        if not self._vocab:
            self._vocab = vocab.Vocabulary(counter=self._counter, reserved_tokens=[EOS_TOKEN])
