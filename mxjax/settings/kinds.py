"""What an option may hold: each kind turns text or a Python value into the option's value.

A kind has `expected`, the words an error message uses, and `convert`, which raises `ValueError`
for anything else.  The same conversion serves environment variables and arguments, so a value
means the same wherever it comes from.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Protocol

_TRUE = frozenset({"1", "true", "on", "yes"})
_FALSE = frozenset({"0", "false", "off", "no"})


class KindError(ValueError):
    """A refusal with a message of its own, which is shown beside what was expected."""


class Kind(Protocol):
    """How one sort of option reads its values."""

    @property
    def expected(self) -> str:
        """The allowed values, as words that follow "expected"."""

    def convert(self, raw: object) -> Any:
        """The option's value for `raw`; `ValueError` where it is not allowed."""


class Boolean:
    """On or off."""

    expected = "0 or 1 (also true/false, on/off, yes/no)"

    def convert(self, raw: object) -> bool:
        word = str(int(raw)) if isinstance(raw, bool | int) else raw
        if isinstance(word, str):
            if word.strip().lower() in _TRUE:
                return True
            if word.strip().lower() in _FALSE:
                return False
        raise ValueError


class Integer:
    """A whole number between two bounds; `high=None` leaves the upper end open."""

    def __init__(self, low: int = 0, high: int | None = None) -> None:
        self.low = low
        self.high = high

    @property
    def expected(self) -> str:
        return (
            f"an integer >= {self.low}"
            if self.high is None
            else (f"an integer from {self.low} to {self.high}")
        )

    def convert(self, raw: object) -> int:
        if isinstance(raw, bool) or not isinstance(raw, int | str):
            raise ValueError
        number = int(raw)  # ValueError for other text
        if number < self.low or (self.high is not None and number > self.high):
            raise ValueError
        return number


class Float:
    """A number between two bounds."""

    def __init__(self, low: float = 0.0, high: float | None = None, open_low: bool = False) -> None:
        self.low = low
        self.high = high
        self.open_low = open_low

    @property
    def expected(self) -> str:
        above = f"> {self.low:g}" if self.open_low else f">= {self.low:g}"
        return f"a number {above}" + ("" if self.high is None else f" and <= {self.high:g}")

    def convert(self, raw: object) -> float:
        if isinstance(raw, bool) or not isinstance(raw, int | float | str):
            raise ValueError
        number = float(raw)
        low = number > self.low if self.open_low else number >= self.low
        if not low or (self.high is not None and not number <= self.high):  # NaN is refused
            raise ValueError
        return number


class Either:
    """What one of several kinds takes; the first that does."""

    def __init__(self, *kinds: Kind) -> None:
        self.kinds = kinds

    @property
    def expected(self) -> str:
        return ", or ".join(kind.expected for kind in self.kinds)

    def convert(self, raw: object) -> Any:
        for kind in self.kinds:
            try:
                return kind.convert(raw)
            except (ValueError, TypeError):
                continue
        raise ValueError


class Words:
    """Some of a few words, separated by commas; upper and lower case do not matter.

    Without `words` any will do.
    """

    def __init__(self, words: tuple[str, ...] = ()) -> None:
        self.words = words

    @property
    def expected(self) -> str:
        return "a list of words with commas between them" + (
            f": {', '.join(self.words)}" if self.words else ""
        )

    def convert(self, raw: object) -> tuple[str, ...]:
        if isinstance(raw, str):
            raw = raw.split(",")
        if not isinstance(raw, list | tuple) or not all(isinstance(word, str) for word in raw):
            raise ValueError
        given = [word.strip() for word in raw if word.strip()]
        if not self.words:
            return tuple(dict.fromkeys(given))
        known = {word.lower(): word for word in self.words}
        if any(word.lower() not in known for word in given):
            raise ValueError
        return tuple(dict.fromkeys(known[word.lower()] for word in given))


class Fields:
    """A structure: named fields, each of a kind of its own; a dict, a JSON object, or an object
    with attributes of these names, such as NPURunConfig's DumpConfig.
    """

    def __init__(self, **kinds: Kind) -> None:
        self.kinds = kinds

    @property
    def expected(self) -> str:
        return "a dict or a JSON object with " + "; ".join(
            f"{name}: {kind.expected}" for name, kind in self.kinds.items()
        )

    def convert(self, raw: object) -> Mapping[str, Any]:
        if isinstance(raw, str):
            import json

            raw = json.loads(raw)
        elif not isinstance(raw, Mapping) and hasattr(raw, "__dict__"):
            raw = {name.lstrip("_"): value for name, value in vars(raw).items()}
        if not isinstance(raw, Mapping) or not set(raw) <= set(self.kinds):
            raise ValueError
        return MappingProxyType(
            {
                name: self.kinds[name].convert(value)
                for name, value in raw.items()
                if value is not None
            }
        )


class Bytes:
    """A number of bytes: an integer, or text with a unit such as '2GB', '512 MiB' or '1.5G'.

    Units are powers of 1024, as MegEngine's and MXNet's are, with or without the i.
    """

    expected = "a number of bytes: an integer >= 0, or a text such as '512MB' or '2GiB'"

    _TEXT = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]?)(?:i?b)?\s*", re.IGNORECASE)
    _POWER = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}

    def convert(self, raw: object) -> int:
        if isinstance(raw, int) and not isinstance(raw, bool) and raw >= 0:
            return raw
        found = self._TEXT.fullmatch(raw) if isinstance(raw, str) else None
        if found is None:
            raise ValueError
        return int(float(found[1]) * 1024 ** self._POWER[found[2].lower()])


class Choice:
    """One of a few words; upper and lower case do not matter.

    `suffix` is an ending that upstream accepts and that changes nothing here.
    """

    def __init__(self, words: tuple[str, ...], suffix: str = "") -> None:
        self.words = words
        self.suffix = suffix

    @property
    def expected(self) -> str:
        return "one of " + ", ".join(self.words)

    def convert(self, raw: object) -> str:
        if not isinstance(raw, str):
            raise ValueError
        text = raw.strip().lower()
        for word in self.words:
            if text in (word.lower(), word.lower() + self.suffix.lower()):
                return word
        raise ValueError


class Text:
    """Any text."""

    expected = "a text"

    def convert(self, raw: object) -> str:
        if not isinstance(raw, str):
            raise ValueError
        return raw


class Path:
    """A path; `~` is the home folder.

    Args:
      empty: an empty text is a value, too, in the option's own variable as well.
    """

    expected = "a path"

    def __init__(self, empty: bool = False) -> None:
        self.empty = empty
        if empty:
            self.expected = "a path, or nothing"

    def convert(self, raw: object) -> str:
        if not isinstance(raw, str | os.PathLike):
            raise ValueError
        return os.path.expanduser(os.fspath(raw))


class File(Path):
    """A path to a file or folder that is there."""

    expected = "a path to something that exists"

    def convert(self, raw: object) -> str:
        path = super().convert(raw)
        if not os.path.exists(path):
            raise ValueError
        return path


class DeviceName:
    """A device: cpu, gpu, tpu or xpu (the best there is) and a number, such as gpu1 or cpu:0.

    `x` and no number stand for 0, as in MegEngine's xpux.
    """

    expected = "a device such as cpu0, gpu1, tpu0 or xpu (the best there is)"

    _TEXT = re.compile(r"(cpu|gpu|tpu|xpu)(?::?(\d{1,4})|x)?", re.IGNORECASE)

    def convert(self, raw: object) -> str:
        found = self._TEXT.fullmatch(raw.strip()) if isinstance(raw, str) else None
        if found is None:
            raise ValueError
        return f"{found[1].lower()}{int(found[2] or 0)}"


def read_text(path: str) -> str:
    """A small text file that an option names; `KindError` where it cannot be read."""
    try:
        with open(os.path.expanduser(path), encoding="utf-8") as file:
            return file.read(1 << 20)
    except OSError as error:
        raise KindError(f"the file cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise KindError("the file is no UTF-8 text") from None


class Flags:
    """Names with values: a dict, a JSON object, or text in the manner of XLA_FLAGS."""

    def __init__(self, prefix: str = "") -> None:
        self.prefix = prefix

    @property
    def expected(self) -> str:
        name = self.prefix + "name"
        return f"a dict, a JSON object, or '--{name}=value --{name}=value'"

    def convert(self, raw: object) -> Mapping[str, bool | int | float | str]:
        if isinstance(raw, str):
            text = raw.strip()
            if text.startswith("{"):
                import json

                return self.convert(json.loads(text))
            pairs = (word.removeprefix("--").partition("=") for word in text.split())
            return self.convert({name: _literal(value) for name, _, value in pairs})
        if not isinstance(raw, Mapping):
            raise ValueError
        for name, value in raw.items():
            known = isinstance(name, str) and name.startswith(self.prefix)
            if not known or not isinstance(value, bool | int | float | str):
                raise ValueError
        return MappingProxyType(dict(raw))


def _literal(text: str) -> bool | int | float | str:
    """The value that a flag's text stands for; a flag without one is switched on."""
    if text.lower() in ("", "true", "false"):
        return text.lower() != "false"
    for number in (int, float):
        try:
            return number(text)
        except ValueError:
            continue
    return text
