"""Which Ray cluster a job uses. What it does there: tests/kvstore/processes, with Ray."""

from __future__ import annotations

import sys
import types

import pytest

import mxjax as mx
from mxjax.launch import cluster


@pytest.mark.parametrize(
    ("given", "used"), [("", None), ("local", None), ("auto", "auto"), ("a:1", "a:1")]
)
def test_the_cluster_that_the_environment_names(monkeypatch, given, used):
    monkeypatch.setenv("RAY_ADDRESS", given)
    assert cluster.named() == used


def test_clients_of_ray_s_are_told_what_is_expected(monkeypatch):
    monkeypatch.setenv("RAY_ADDRESS", "ray://a:10001")
    with pytest.raises(mx.MXNetError, match="expected HOST:PORT"):
        cluster.named()


class _Ray(types.ModuleType):
    """What `connect` uses of Ray."""

    __version__ = "0"

    def __init__(self):
        super().__init__("ray")
        self.given = []
        self.exceptions = types.SimpleNamespace(AuthenticationError=Exception)

    def is_initialized(self):
        return bool(self.given)

    def init(self, **options):
        self.given.append(options)


@pytest.mark.parametrize(
    ("host", "used"),
    [("10.0.0.7", "10.0.0.7"), ("127.0.0.1", None), ("0.0.0.0", None), (None, None)],
)
def test_a_named_cluster_is_entered_through_this_machine_s_node_and_once(monkeypatch, host, used):
    ray = _Ray()
    monkeypatch.setitem(sys.modules, "ray", ray)
    monkeypatch.setenv("DMLC_NODE_HOST", host) if host else monkeypatch.delenv(
        "DMLC_NODE_HOST", raising=False
    )
    assert cluster.connect("10.0.0.1:6379", None, namespace="n") is ray
    cluster.connect("10.0.0.1:6379", None)
    (given,) = ray.given
    assert (given["address"], given["namespace"]) == ("10.0.0.1:6379", "n")
    assert given.get("_node_ip_address") == used


def test_a_token_that_comes_too_late_is_refused(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", _Ray())
    with pytest.raises(mx.MXNetError, match="imported already"):
        cluster.start("0" * 32, "folder", 1)
