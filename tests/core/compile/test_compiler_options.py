"""The default options: which processor gets which, and that XLA takes them."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from mxjax.core import compiler
from mxjax.core.compile import compiler_options
from mxjax.core.compile.compiler_options import cpu_features, default_options

WIDE = frozenset({"sse2", "avx512f"})


def test_accelerators_keep_the_compilers_defaults():
    assert default_options("tpu", features=WIDE) == {}
    assert default_options("gpu", features=WIDE) == {}


def test_vector_width_follows_the_processor():
    name = "xla_cpu_prefer_vector_width"
    assert default_options("cpu", features=WIDE)[name] == 512
    assert name not in default_options("cpu", features=frozenset({"avx2"}))


def test_options_are_accepted_and_do_not_change_results():
    x = jnp.linspace(-2.0, 2.0, 1000)
    lowered = jax.jit(lambda x: jnp.maximum(x * 1.5 + 0.25, 0)).lower(x)
    for features in (WIDE, cpu_features()):
        run = lowered.compile(compiler_options=default_options("cpu", features=features))
        assert jnp.allclose(run(x), jnp.maximum(x * 1.5 + 0.25, 0))


def test_disabled_passes_of_several_contributors_are_joined():
    merged: dict[str, object] = {"xla_cpu_prefer_vector_width": 512}
    compiler.merge(merged, {"xla_disable_hlo_passes": "cse_barrier_expander"})
    compiler.merge(merged, {"xla_disable_hlo_passes": "cse,cse_barrier_expander"})
    assert merged == {
        "xla_cpu_prefer_vector_width": 512,
        "xla_disable_hlo_passes": "cse_barrier_expander,cse",
    }


def test_complex_numbers_keep_xlas_width_where_its_arc_tangent_is_wrong(monkeypatch):
    def width(fn, version):
        monkeypatch.setattr(compiler_options.jaxlib, "__version__", version)
        options = default_options("cpu", features=WIDE)
        compiler_options.leave_width(options, jax.make_jaxpr(fn)(jnp.ones(3)).jaxpr)
        return options.get("xla_cpu_prefer_vector_width")

    angle = jax.jit(lambda x: jnp.imag(jnp.log(jax.lax.complex(x, x))))
    assert [width(angle, v) for v in ("0.10.1", "0.10.2", "0.11.2", "0.12.0.1")] == [
        512,
        None,
        None,
        512,
    ]
    assert width(jnp.arctan, "0.10.2") == 512  # has code of ours
