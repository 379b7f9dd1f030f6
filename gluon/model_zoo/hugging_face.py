"""Addresses of Hugging Face, ``hf://owner/name@revision/file``: their parts, URL and place here."""

from __future__ import annotations

import re
from typing import NamedTuple
from urllib.parse import quote

from mxjax import errors

from ...files.downloading import is_plain_name, place_within

__all__ = ["Address", "address"]

#: The most bytes of a file of weights.
LARGEST = 64 << 30
_EXPECTED = "hf://owner/name is expected, or hf://owner/name@revision, and /file after it"
# Letters, digits, "-", "_" and single dots within.
_NAME = re.compile(r"[A-Za-z0-9_-](?:\.?[A-Za-z0-9_-])*", re.ASCII)
_LONGEST = 96


class Address(NamedTuple):
    """A repository, at a branch, tag or commit, and a file in it ("": none)."""

    owner: str
    name: str
    revision: str
    file: str

    def url(self, file: str = "") -> str:
        """Where this file, or another one of the repository, is fetched."""
        start = f"https://huggingface.co/{self.owner}/{self.name}/resolve"
        return f"{start}/{self.revision or 'main'}/{quote(file or self.file)}"

    def path(self, folder: str, file: str = "") -> str:
        """Its place in a folder of such files; another revision has another one.

        Raises:
          ValueError: another file is there, whose name differs in case.
        """
        name = f"{self.name}@{self.revision}" if self.revision else self.name
        return place_within(folder, self.owner, name, *(file or self.file).split("/"))


def address(text: str) -> Address:
    """The parts of an address.

    Raises:
      ValueError: it is none, or a part is not a plain name.

    >>> address("hf://owner/name@v1.0/weights/small.params")
    Address(owner='owner', name='name', revision='v1.0', file='weights/small.params')
    """
    owner, _, rest = text.removeprefix("hf://").partition("/")
    name, _, file = rest.partition("/")
    name, at, revision = name.partition("@")
    parts = (owner, name, revision) if at else (owner, name)
    sound = all(
        len(part) <= _LONGEST and _NAME.fullmatch(part) and is_plain_name(part) for part in parts
    )
    if (
        not text.startswith("hf://")
        or not sound
        or file
        and not all(map(is_plain_name, file.split("/")))
    ):
        raise errors.MXNetValueError(f"{text[:200]!r}: {_EXPECTED}")
    return Address(owner, name, revision, file)
