"""Words of a text, counted."""

from __future__ import annotations

import re
from collections import Counter

__all__ = ["count_tokens_from_str"]


def count_tokens_from_str(
    source_str: str,
    token_delim: str = " ",
    seq_delim: str = "\n",
    to_lower: bool = False,
    counter_to_update: Counter[str] | None = None,
) -> Counter[str]:
    """How often each token is in a text.

    Args:
      source_str: the text.
      token_delim, seq_delim: regular expressions of what is between tokens, and between sequences of them.
      to_lower: count in lower case.
      counter_to_update: what is counted is added to this counter, which is then the result.

    >>> sorted(count_tokens_from_str("Life is great\\nlife is good", to_lower=True).items())
    [('good', 1), ('great', 1), ('is', 2), ('life', 2)]
    """
    tokens = filter(None, re.split(f"{token_delim}|{seq_delim}", source_str))
    counter: Counter[str] = Counter() if counter_to_update is None else counter_to_update
    counter.update(token.lower() if to_lower else token for token in tokens)
    return counter
