"""Whether JAX's backend runs already is up to the test, not to the tests before it."""

import pytest


@pytest.fixture(autouse=True)
def backend_is_down(monkeypatch):
    monkeypatch.setattr("mxjax.settings.registry.backend_is_up", lambda: False)
    monkeypatch.setattr("mxjax.settings.registry.libraries_are_loaded", lambda: False)
