"""The default options: which processor gets which, and that XLA takes them."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from mxjax.core import compiler
from mxjax.core.compile import compiler_options, program
from mxjax.core.compile.compiler_options import cpu_features, default_options

WIDE = frozenset({"sse2", "avx512f"})
NAME = "xla_multiheap_size_constraint_per_heap"


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


def chain(shape):
    """Arrays that are all kept for the next product, then folded: temporaries of about 40 times the shape."""

    def fn(x, w):
        kept = [x]
        for _ in range(40):
            kept.append(jnp.tanh(kept[-1] @ w))
        return sum(k[::-1] @ w for k in kept)

    return fn, [
        jax.ShapeDtypeStruct(shape, "float32"),
        jax.ShapeDtypeStruct((shape[1],) * 2, "float32"),
    ]


@pytest.mark.parametrize(
    ("rows", "in_blocks"),
    [(8, False), (4096, True), (65536, False)],  # little in all; 1 MB each; 16 MB each
)
def test_temporaries_are_in_blocks_where_arrays_are_small_beside_them(rows, in_blocks):
    fn, structs = chain((rows, 64))
    options = {}
    compiler_options.in_blocks(options, jax.make_jaxpr(fn)(*structs).jaxpr)
    assert options == ({NAME: compiler_options.BLOCK} if in_blocks else {})


def test_a_program_in_blocks_gives_the_same_numbers():
    fn, structs = chain((4096, 64))
    rng = np.random.RandomState(0)
    given = [rng.uniform(-0.2, 0.2, s.shape).astype("float32") for s in structs]
    lowered = jax.jit(fn).lower(*structs)
    whole, parted = lowered.compile(), lowered.compile({NAME: compiler_options.BLOCK})
    np.testing.assert_array_equal(whole(*given), parted(*given))
    most = max(m.memory_analysis().temp_size_in_bytes for m in (whole, parted))
    assert most > compiler_options.BLOCK  # so that there are several


@pytest.mark.parametrize("kept", [None, 1 << 29])
def test_an_allocator_that_keeps_all_needs_no_blocks(kept, monkeypatch):
    monkeypatch.setattr(program.host_memory, "is_kept", lambda: bool(kept))
    seen = []
    monkeypatch.setattr(program, "in_blocks", lambda options, jaxpr: seen.append(jaxpr))
    fn, structs = chain((8, 8))
    program.compile_function(
        fn,
        structs,
        donate=(),
        device=jax.devices("cpu")[0],
        out_shardings=None,
        name="chain",
        reason="test",
    )
    assert len(seen) == (kept is None)
