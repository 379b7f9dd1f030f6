"""An observer of the engine for tests that count programs by name."""

from __future__ import annotations


class Runs:
    """Names of the programs that ran."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def on_run(self, name: str, steps: object, start: int, stop: int) -> None:
        self.names.append(name)

    def on_compile(self, *_: object) -> None: ...

    on_sync = on_python = on_compile
