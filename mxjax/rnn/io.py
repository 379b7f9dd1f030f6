"""Sentences as numbers, and in batches of one length."""

from __future__ import annotations

import bisect
import random
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from .. import nd
from ..errors import MXNetAssertionError, MXNetValueError
from ..io import DataBatch, DataDesc, DataIter

__all__ = ["BucketSentenceIter", "encode_sentences"]


def encode_sentences(
    sentences: Iterable[Iterable[Any]], vocab: dict[Any, int] | None = None, invalid_label: int = -1,
    invalid_key: Any = "\n", start_label: int = 0, unknown_token: Any = None,
) -> tuple[list[list[int]], dict[Any, int]]:  # fmt: skip
    """Words as numbers.

    Args:
      sentences: lists of words.
      vocab: numbers by word; None makes them, from `start_label` on, in the order of the words.
      invalid_label: a number that no word gets, that of `invalid_key`.
      unknown_token: the word that unknown ones count as; None refuses them.

    Returns:
      The sentences as lists of numbers, and the vocabulary.

    Raises:
      AssertionError: a word that a given vocabulary does not have.

    >>> encode_sentences([["a", "b"], ["b", "a"]])
    ([[0, 1], [1, 0]], {'\\n': -1, 'a': 0, 'b': 1})
    """
    new = vocab is None
    vocab = {invalid_key: invalid_label} if vocab is None else vocab
    number = start_label
    coded = []
    for sentence in sentences:
        numbers = []
        for word in sentence:
            if word not in vocab:
                if not (new or unknown_token):
                    raise MXNetAssertionError(
                        f"Unknown token {word}: give unknown_token, or a vocabulary that has it"
                    )
                if number == invalid_label:
                    number += 1
                if unknown_token:
                    word = unknown_token
                vocab[word] = number
                number += 1
            numbers.append(vocab[word])
        coded.append(numbers)
    return coded, vocab


class BucketSentenceIter(DataIter):
    """Batches of sentences of like length for language models: the label of a word is the next one.

    Batches come in an order drawn by Python's `random`, sentences within a bucket in one drawn by `numpy.random`, anew
    at each `reset`; sentences that do not fill a batch are left out.

    Args:
      sentences: lists of numbers.
      batch_size: sentences in a batch.
      buckets: lengths; by default all that at least `batch_size` sentences have. A sentence goes to the shortest it
        fits into, and is left out where there is none.
      invalid_label: what fills it up.
      data_name, label_name: names of the two arrays.
      dtype: their dtype.
      layout: "NT" for (sentences, words), "TN" for (words, sentences).

    Raises:
      ValueError: another layout.
    """

    def __init__(
        self, sentences: Sequence[Sequence[int]], batch_size: int, buckets: list[int] | None = None,
        invalid_label: int = -1, data_name: str = "data", label_name: str = "softmax_label",
        dtype: Any = "float32", layout: str = "NT",
    ):  # fmt: skip
        super().__init__()
        lengths = [len(sentence) for sentence in sentences]
        if not buckets:
            buckets = [
                length for length, count in enumerate(np.bincount(lengths)) if count >= batch_size
            ]
        buckets.sort()
        rows: list[list[np.ndarray]] = [[] for _ in buckets]
        discarded = 0
        for sentence, length in zip(sentences, lengths, strict=True):
            place = bisect.bisect_left(buckets, length)
            if place == len(buckets):
                discarded += 1
                continue
            row = np.full((buckets[place],), invalid_label, dtype=dtype)
            row[:length] = sentence
            rows[place].append(row)
        print(f"WARNING: discarded {discarded} sentences longer than the largest bucket.")
        self.buckets = [bucket for bucket, some in zip(buckets, rows, strict=True) if some]
        self.data = [np.asarray(some, dtype=dtype) for some in rows if some]
        if not self.buckets:
            raise MXNetValueError(
                f"no bucket has a sentence: buckets {buckets}, lengths {sorted(set(lengths))}, batch_size {batch_size}"
            )
        self.batch_size = batch_size
        self.data_name = data_name
        self.label_name = label_name
        self.dtype = dtype
        self.invalid_label = invalid_label
        self.layout = layout
        self.major_axis = layout.find("N")
        if self.major_axis not in (0, 1):
            raise MXNetValueError(
                f"Invalid layout {layout}: Must by NT (batch major) or TN (time major)"
            )
        self.default_bucket_key = max(self.buckets)
        shape = (batch_size, self.default_bucket_key)
        self.provide_data = [self._describe(data_name, shape)]
        self.provide_label = [self._describe(label_name, shape)]
        self.idx = [
            (bucket, begin)
            for bucket, some in enumerate(self.data)
            for begin in range(0, len(some) - batch_size + 1, batch_size)
        ]
        self.curr_idx = 0
        self.nddata: list[Any] = []
        self.ndlabel: list[Any] = []
        self.reset()

    def _describe(self, name: str, shape: Sequence[int]) -> DataDesc:
        return DataDesc(
            name, tuple(shape if self.major_axis == 0 else reversed(shape)), layout=self.layout
        )

    def reset(self) -> None:
        self.curr_idx = 0
        random.shuffle(self.idx)
        for bucket in self.data:
            np.random.shuffle(bucket)
        self.nddata = [nd.array(bucket, dtype=self.dtype) for bucket in self.data]
        self.ndlabel = [
            nd.array(self._next_words(bucket), dtype=self.dtype) for bucket in self.data
        ]

    def _next_words(self, bucket: np.ndarray) -> np.ndarray:
        label = np.full_like(bucket, self.invalid_label)
        label[:, :-1] = bucket[:, 1:]
        return label

    def next(self) -> DataBatch:
        if self.curr_idx == len(self.idx):
            raise StopIteration
        bucket, begin = self.idx[self.curr_idx]
        self.curr_idx += 1
        part = slice(begin, begin + self.batch_size)
        data, label = self.nddata[bucket][part], self.ndlabel[bucket][part]
        if self.major_axis == 1:
            data, label = data.T, label.T
        return DataBatch(
            [data], [label], pad=0, bucket_key=self.buckets[bucket],
            provide_data=[DataDesc(self.data_name, data.shape, layout=self.layout)],
            provide_label=[DataDesc(self.label_name, label.shape, layout=self.layout)],
        )  # fmt: skip
