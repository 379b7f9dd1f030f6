"""Whether JAX's backend runs already is up to the test, not to the tests before it."""

import pytest

from mxjax import settings
from mxjax.core import hooks


@pytest.fixture(autouse=True)
def backend_is_down(monkeypatch):
    monkeypatch.setattr("mxjax.settings.registry.backend_is_up", lambda: False)
    monkeypatch.setattr("mxjax.settings.registry.libraries_are_loaded", lambda: False)
    yield
    settings.reset()  # while that holds: what counts only before the start is taken back, too


class Programs(list):
    """The programs compiled since the last `clear`, with the options they were compiled with."""

    def __call__(self, name, device, compiled, options):
        self.append((compiled, options))

    @property
    def text(self):
        return "\n".join(compiled.as_text() for compiled, _ in self)

    @property
    def options(self):
        return self[-1][1]


@pytest.fixture
def programs():
    seen = Programs()
    hooks.compile_listeners.append(seen)
    yield seen
    hooks.compile_listeners.remove(seen)
