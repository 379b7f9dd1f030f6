"""Tokens and their numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from typing import Any

from mxjax.display.reprs import Shown
from mxjax.errors import MXNetAssertionError, MXNetTypeError, MXNetValueError

__all__ = ["UNKNOWN_IDX", "Vocabulary"]

#: The number of every token that a vocabulary does not have.
UNKNOWN_IDX = 0


class Vocabulary(Shown):
    """Numbers tokens: the unknown token is 0, then come the reserved ones, then those counted, the most frequent first.

    Tokens that are equally frequent have the order of themselves.

    Args:
      counter: how often each token was seen; without it there are only the unknown and the reserved ones.
      most_freq_count: at most so many tokens of `counter`.
      min_freq: tokens that are rarer are left out.
      unknown_token: stands for every token that is not in the vocabulary.
      reserved_tokens: tokens that are always there, as for padding.

    Raises:
      AssertionError: `min_freq` is not positive, reserved tokens are double or the unknown one, `counter` is no
        `collections.Counter`.

    >>> words = Vocabulary(Counter("a b b c c c".split()), min_freq=2, reserved_tokens=["<pad>"])
    >>> words.idx_to_token, words.to_indices(["c", "a"]), words.to_tokens(3)
    (['<unk>', '<pad>', 'c', 'b'], [2, 0], 'b')
    """

    def __init__(
        self,
        counter: Counter[Any] | None = None,
        most_freq_count: int | None = None,
        min_freq: int = 1,
        unknown_token: Hashable = "<unk>",
        reserved_tokens: Sequence[Hashable] | None = None,
    ):
        if min_freq < 1:
            raise MXNetAssertionError(f"min_freq must be positive, got {min_freq}")
        reserved = list(reserved_tokens or ())
        if unknown_token in reserved:
            raise MXNetAssertionError(
                f"reserved_tokens must not have the unknown token {unknown_token!r}"
            )
        if len(set(reserved)) < len(reserved):
            raise MXNetAssertionError(f"reserved_tokens has a token twice: {reserved}")
        self._index_unknown_and_reserved_tokens(
            unknown_token, None if reserved_tokens is None else reserved
        )
        if counter is not None:
            self._index_counter_keys(
                counter, unknown_token, reserved_tokens, most_freq_count, min_freq
            )

    def _index_unknown_and_reserved_tokens(
        self, unknown_token: Any, reserved_tokens: list[Any] | None
    ) -> None:
        """Begin the index; subclasses override it."""
        self._unknown_token: Any = unknown_token
        self._reserved_tokens: list[Any] | None = reserved_tokens
        self._idx_to_token: list[Any] = [unknown_token, *(reserved_tokens or ())]
        self._token_to_idx: dict[Any, int] = {
            token: idx for idx, token in enumerate(self._idx_to_token)
        }

    def _index_counter_keys(
        self, counter: Counter[Any], unknown_token: Any, reserved_tokens: Any, most_freq_count: int | None,
        min_freq: int,
    ) -> None:  # fmt: skip
        """Index the tokens of a counter, the most frequent first; subclasses override it."""
        if not isinstance(counter, Counter):
            raise MXNetAssertionError(
                f"counter must be a collections.Counter, got {type(counter).__name__}"
            )
        known = {unknown_token, *(reserved_tokens or ())}
        by_count = sorted(sorted(counter), key=counter.__getitem__, reverse=True)
        frequent = [t for t in by_count if counter[t] >= min_freq and t not in known]
        for token in frequent[:most_freq_count]:
            self._token_to_idx[token] = len(self._idx_to_token)
            self._idx_to_token.append(token)

    def _shown(self) -> dict[str, Any]:
        return {"tokens": len(self)}

    def __len__(self) -> int:
        return len(self._idx_to_token)

    @property
    def token_to_idx(self) -> dict[Any, int]:
        """token -> its number."""
        return self._token_to_idx

    @property
    def idx_to_token(self) -> list[Any]:
        """The tokens in the order of their numbers."""
        return self._idx_to_token

    @property
    def unknown_token(self) -> Any:
        """What stands for tokens that are not in the vocabulary."""
        return self._unknown_token

    @property
    def reserved_tokens(self) -> list[Any] | None:
        """The tokens that are always there."""
        return self._reserved_tokens

    def to_indices(self, tokens: Any) -> Any:
        """The number of a token, or the numbers of a list of tokens; 0 for those that are not in the vocabulary."""
        if not isinstance(tokens, list):
            return self._token_to_idx.get(tokens, UNKNOWN_IDX)
        return [self._token_to_idx.get(token, UNKNOWN_IDX) for token in tokens]

    def to_tokens(self, indices: Any) -> Any:
        """The token of a number, or the tokens of a list of numbers.

        Raises:
          ValueError: a number that no token has.
          TypeError: something that is no number.
        """
        if isinstance(indices, list):
            return [self.to_tokens(idx) for idx in indices]
        if not isinstance(indices, int | float):
            raise MXNetTypeError(f"tokens have numbers 0 ... {len(self) - 1}, got {indices!r}")
        if not isinstance(indices, int) or indices >= len(self):
            raise MXNetValueError(
                f"no token has the number {indices!r}: 0 ... {len(self) - 1} are there"
            )
        return self._idx_to_token[indices]
