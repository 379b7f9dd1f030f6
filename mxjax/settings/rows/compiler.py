"""What XLA is told."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any

from ..kinds import (
    Boolean,
    Choice,
    Either,
    File,
    Flags,
    Float,
    Integer,
    KindError,
    Words,
    read_text,
)
from ..option import Legacy, Option

#: The passes of XLA:CPU that put operators together into one loop.
FUSIONS = ("fusion", "fusion-wrapper", "cpu-multi-output-fusion", "dot-library-rewriter")
#: ... and those of XLA:GPU.
GPU_FUSIONS = ("priority-fusion", "multi_output_fusion", "gemm-fusion")


def _disabled(passes: Any) -> dict[str, Any]:
    return {"xla_disable_hlo_passes": ",".join(passes)} if passes else {}


def _autotune(level: str, platform: str) -> dict[str, Any]:
    if platform != "gpu":
        return {}
    return {
        "default": {},
        "off": {"xla_gpu_autotune_level": 0},
        "exhaustive": {"xla_gpu_autotune_level": 4, "xla_gpu_exhaustive_tiling_search": True},
        "reproducible": {"xla_gpu_autotune_level": 0, "xla_gpu_deterministic_ops": True},
        "profile-reproducible": {"xla_gpu_autotune_level": 4, "xla_gpu_deterministic_ops": True},
    }[level]


def _fusion(on: bool, platform: str) -> dict[str, Any]:
    if on:
        return {}
    return _disabled(FUSIONS if platform == "cpu" else GPU_FUSIONS)


def _codegen(name: str, platform: str) -> dict[str, Any]:
    if platform == "cpu":
        return {
            "default": {},
            "mlir": {"xla_cpu_use_fusion_emitters": True},
            "llvm": {"xla_cpu_use_fusion_emitters": False},
        }[name]
    if platform == "gpu":
        return {
            "default": {},
            "mlir": {"xla_gpu_enable_triton_gemm": True},
            "llvm": {"xla_gpu_enable_triton_gemm": False},
        }[name]
    return {}


def _switches(raw: Mapping[str, Any], platform: str) -> dict[str, Any]:
    off = [name for name, on in raw.items() if not on]
    return _disabled(off)


def _plugin(path: str | None) -> dict[str, str | None]:
    if path is None:
        return {"PJRT_NAMES_AND_LIBRARY_PATHS": None}
    name = os.path.basename(path).split(".")[0].removeprefix("lib")
    return {"PJRT_NAMES_AND_LIBRARY_PATHS": f"{name}:{path}"}


class Switches:
    """A fusion switch file of Ascend's, or a dict: names of passes, each on or off.

    Names are XLA's (`fusion`, `cse`, `algsimp`, ...); ALL stands for all that fuse. A file is JSON with
    {"Switch": {"GraphFusion": {NAME: "on" or "off"}, "UBFusion": {...}}}, or lines of NAME:on.
    """

    expected = "a fusion switch file (JSON, or lines of NAME:off), or a dict of names to on or off"

    def convert(self, raw: object) -> Mapping[str, bool]:
        if isinstance(raw, str):
            raw = self._read(raw)
        if not isinstance(raw, Mapping):
            raise ValueError
        found: dict[str, bool] = {}
        for name, value in raw.items():
            if isinstance(value, Mapping):
                found.update(self.convert(value))
            elif name.upper() == "ALL":
                found.update(dict.fromkeys(FUSIONS + GPU_FUSIONS, Boolean().convert(value)))
            else:
                found[name] = Boolean().convert(value)
        return found

    def _read(self, text: str) -> Mapping[str, Any]:
        import json

        if not text.lstrip().startswith("{"):
            text = read_text(text)
        if text.lstrip().startswith("{"):
            tables = json.loads(text)
            found: Mapping[str, Any] = tables.get("Switch", tables)
            return found
        lines = [line.split("#")[0].strip() for line in text.splitlines()]
        return {
            name.strip(): value.strip()
            for name, colon, value in (line.partition(":") for line in lines if line)
        }


class Shapes:
    """Ranges of lengths, input by input: '[128, 3~5, -1],[64, -1]'; -1 is any length.

    Ascend writes names before them, 'getnext:[128, -1],[64];data:[3]': the inputs from a data set, which come first,
    and those that are fed.
    """

    expected = (
        "shapes such as '[128,3~5,-1],[64]' or 'getnext:[128,-1];data:[64]', with LOW~HIGH for a range and -1 for any "
        "length"
    )

    _SHAPE = re.compile(r"\[([^\[\]]*)\]")
    _INPUTS = ("getnext", "data")

    def convert(self, raw: object) -> tuple[tuple[tuple[int, int | None], ...], ...]:
        if isinstance(raw, tuple | list):
            return tuple(tuple(self._pair(length) for length in shape) for shape in raw)
        if not isinstance(raw, str):
            raise ValueError
        parts: dict[str, str] = {}
        for part in filter(str.strip, raw.split(";")):
            name, colon, text = part.rpartition(":")
            name = name.strip()
            if colon and name not in self._INPUTS:
                raise KindError(
                    f"inputs are called {' and '.join(self._INPUTS)}, as Ascend calls them, got {name!r}; "
                    "a block's inputs need no names: shapes come in their order"
                )
            if name in parts or self._SHAPE.sub("", text).strip(" ,") or "[" not in text:
                raise ValueError
            parts[name] = text
        if not parts:
            raise ValueError
        return tuple(
            tuple(self._pair(word) for word in shape.split(",") if word.strip())
            for name in ("", *self._INPUTS)
            for shape in self._SHAPE.findall(parts.get(name, ""))
        )

    def _pair(self, word: object) -> tuple[int, int | None]:
        if isinstance(word, tuple) and len(word) == 2:
            return word
        text = str(word).strip()
        if text == "-1":
            return 0, None
        low, tilde, high = text.partition("~")
        first = Integer().convert(low)
        return first, Integer(first).convert(high) if tilde else first


OPTIONS: tuple[Option, ...] = (
    Option(
        "compiler.options",
        Flags(prefix="xla_"),
        {},
        doc="XLA options that every program is compiled with.",
        effect="Added to the options mxjax chooses itself, and stronger; XLA refuses unknown ones.",
        applies="compile",
        legacy=(
            Legacy(
                "experimental_config",
                fidelity="approximate",
                difference="its fields are XLA's options instead of Ascend's",
            ),
        ),
        compiler=lambda options, platform: options,
    ),
    Option(
        "compiler.autotune",
        Choice(("default", "off", "exhaustive", "reproducible", "profile-reproducible")),
        "default",
        doc="How XLA chooses among a GPU's kernels for one operator.",
        effect="off: by rule, without measuring; exhaustive: matrix products are measured in all "
        "tilings; reproducible: the same kernel on every run.",
        applies="compile",
        legacy=(
            Legacy(
                "MXNET_CUDNN_AUTOTUNE_DEFAULT",
                Integer(0, 2),
                {0: "off", 1: "default", 2: "exhaustive"},
                fidelity="approximate",
                difference="XLA has no limit of workspace for the search: 1 is its default, 2 "
                "searches the tilings of matrix products exhaustively",
            ),
            Legacy(
                "MEGENGINE_EXECUTION_STRATEGY",
                Choice(
                    (
                        "HEURISTIC",
                        "PROFILE",
                        "REPRODUCIBLE",
                        "REPRODUCEABLE",
                        "OPTIMIZED",
                        "PROFILE_REPRODUCIBLE",
                        "HEURISTIC_REPRODUCIBLE",
                    )
                ),
                {
                    "HEURISTIC": "off",
                    "PROFILE": "default",
                    "REPRODUCIBLE": "reproducible",
                    "REPRODUCEABLE": "reproducible",
                    "OPTIMIZED": "exhaustive",
                    "PROFILE_REPRODUCIBLE": "profile-reproducible",
                    "HEURISTIC_REPRODUCIBLE": "reproducible",
                },
            ),
        ),
        platforms=("gpu",),
        compiler=_autotune,
    ),
    Option(
        "compiler.fusion",
        Boolean(),
        True,
        doc="Let XLA put several operators into one loop.",
        effect="0: every operator of a program keeps a buffer of its own.",
        applies="compile",
        legacy=(
            Legacy("MXNET_USE_FUSION"),
            Legacy(
                "buffer_optimize",
                Choice(("l1_optimize", "l2_optimize", "off_optimize")),
                {"l1_optimize": True, "l2_optimize": True, "off_optimize": False},
                fidelity="approximate",
                difference="there are no on-chip buffers to choose between: l1 and l2 are XLA's "
                "default, off leaves every operator its own buffer",
            ),
        ),
        compiler=_fusion,
    ),
    Option(
        "compiler.passes",
        Switches(),
        {},
        doc="Passes of XLA that are switched off, by name.",
        effect="A pass that is off is left out of every program; ALL stands for those that fuse.",
        applies="compile",
        legacy=(
            Legacy(
                "fusion_switch_file",
                fidelity="approximate",
                difference="the passes are XLA's; names that only Ascend has switch nothing",
            ),
            Legacy("MXNET_ELIMINATE_COMMON_EXPR", Boolean(), {True: {}, False: {"cse": False}}),
        ),
        compiler=_switches,
    ),
    Option(
        "compiler.cpu_library",
        Boolean(),
        True,
        doc="Let XLA:CPU call tuned kernels for matrix products and convolutions.",
        effect="0: XLA's own loops instead of its kernel library.",
        applies="compile",
        legacy=(Legacy("MXNET_MKLDNN_ENABLED"), Legacy("MXNET_ONEDNN_ENABLED")),
        platforms=("cpu",),
        compiler=lambda on, platform: (
            {} if on or platform != "cpu" else {"xla_cpu_experimental_ynn_fusion_type": ""}
        ),
    ),
    Option(
        "compiler.cpu_parallel",
        Boolean(),
        True,
        doc="Let one operator of XLA:CPU use several threads.",
        effect="0: each kernel runs in one thread; programs still run side by side.",
        applies="compile",
        legacy=(
            Legacy(
                "MXNET_USE_OPERATOR_TUNING",
                Either(
                    Boolean(),
                    Words(("int8", "uint8", "int32", "int64", "float16", "float32", "float64")),
                ),
                bool,
                fidelity="approximate",
                difference="XLA decides by a fixed model of costs and measures nothing: 0 "
                "takes the decision from it, any list of types leaves it",
            ),
        ),
        platforms=("cpu",),
        compiler=lambda on, platform: (
            {} if on or platform != "cpu" else {"xla_cpu_multi_thread_eigen": False}
        ),
    ),
    Option(
        "compiler.codegen",
        Choice(("default", "mlir", "llvm")),
        "default",
        doc="What XLA generates fused kernels with.",
        effect="On CPU the emitters of fused loops (mlir: the newer ones; XLA of jax 0.12 has no others), on "
        "GPU whether Triton writes matrix products.",
        applies="compile",
        legacy=(
            Legacy(
                "MGB_JIT_BACKEND",
                Choice(("HALIDE", "NVRTC", "MLIR")),
                {"MLIR": "mlir", "NVRTC": "llvm", "HALIDE": "llvm"},
                fidelity="approximate",
                difference="Halide and NVRTC have no counterpart: both are XLA's older "
                "emitters through LLVM",
            ),
        ),
        dynamic=True,
        platforms=("cpu", "gpu"),
        compiler=_codegen,
    ),
    Option(
        "compiler.cuda_path",
        File(),
        None,
        doc="The folder with CUDA's tools (ptxas, nvlink).",
        effect="XLA:GPU looks there first; a folder that is not there is an error on every platform.",
        applies="compile",
        legacy=(Legacy("CUDA_BIN_PATH"),),
        platforms=("gpu",),
        compiler=lambda path, platform: (
            {"xla_gpu_cuda_data_dir": path} if path and platform == "gpu" else {}
        ),
    ),
    Option(
        "compiler.small_channel_conv",
        Boolean(),
        False,
        doc="Run convolutions over at most four input channels as matrix products.",
        effect="The windows are laid out as rows and multiplied by the filters in one product.",
        applies="compile",
        legacy=(
            Legacy(
                "enable_small_channel",
                Integer(0, 1),
                {0: False, 1: True},
                fidelity="approximate",
                difference="off unless asked for, in inference too: on CPU such convolutions "
                "are products anyway where their windows take little memory",
            ),
        ),
        mechanism="convolutions over at most 4 channels are lowered to strided slices and one dot",
    ),
    Option(
        "compiler.static_shapes",
        Boolean(),
        False,
        doc="Let a hybridized block take inputs of one shape only.",
        effect="1: another shape than that of its first call is an error, so memory is planned once; "
        "0: each new shape is another program.",
        legacy=(
            Legacy("MEGENGINE_INPUT_NODE_USE_STATIC_SHAPE"),
            Legacy("dynamic_input", Boolean(), {True: False, False: True}),
        ),
        mechanism="a hybridized block compares its inputs' shapes with those of its first graph",
    ),
    Option(
        "compiler.dynamic_batch",
        Choice(("exact", "bucket")),
        "exact",
        doc="What a hybridized block does when the length of axis 0 changes.",
        effect="exact: a program per length. bucket: the inputs are filled up to the next power of two "
        "and the results cut, so there are few programs; blocks whose rows depend on each other "
        "are found out and run exactly.",
        legacy=(
            Legacy("compile_dynamic_mode", Boolean(), {True: "bucket", False: "exact"}),
            Legacy(
                "dynamic_graph_execute_mode",
                Choice(("dynamic_execute", "lazy_recompile")),
                {"dynamic_execute": "bucket", "lazy_recompile": "exact"},
            ),
        ),
        mechanism="inputs are padded along axis 0 with their last row, results are sliced",
    ),
    Option(
        "compiler.shape_ranges",
        Shapes(),
        (),
        doc="The shapes that a hybridized block takes, input by input.",
        effect="A length outside its range is an error that names the range.",
        legacy=(Legacy("dynamic_inputs_shape_range"),),
        mechanism="compared with the inputs before another graph is recorded",
    ),
    Option(
        "compiler.plugin",
        File(),
        None,
        doc="A library with a device for JAX (a PJRT plugin).",
        effect="JAX loads it when it starts, under the library's own name; a file that is not there, or is none, "
        "is an error that names it.",
        applies="backend-init",
        legacy=(
            Legacy(
                "MXNET_LIBRARY_PATH",
                fidelity="approximate",
                difference="there is no libmxnet to load: it is the library of JAX's device",
            ),
        ),
        environment=_plugin,
    ),
    Option(
        "compiler.scope_fusions",
        Words(("auto", "ScopeLayerNormPass", "ScopeClipBoxesPass", "ScopeAttentionPass")),
        ("auto",),
        doc="Operators that spell something out become the one operator that means it.",
        effect="A normalised last axis, a minimum of a maximum, a softmax of products between products: each is found "
        "in hybridized blocks and segments and computed as a whole (mx.engine.stats()['rewritten'] counts them). "
        "Attention of 16 bits is cuDNN's on a GPU, forward and backward in hybridized blocks. Last bits may differ. "
        "auto: that alone, for sequences of 64 and more, unless determinism.enabled; an empty list: nothing.",
        applies="compile",
        legacy=(
            Legacy(
                "enable_scope_fusion_passes",
                fidelity="approximate",
                difference="three rewritings of our own stand for Ascend's, which know scopes of TensorFlow; "
                "other names are refused",
            ),
        ),
        mechanism="the steps of a program are matched before it is traced",
    ),
    Option(
        "compiler.conv_search",
        Boolean(),
        False,
        doc="Measure a convolution as one and as a matrix product, and take what is faster.",
        effect="Once for each shape, while its program is traced; without it a rule of thumb decides.",
        applies="compile",
        mechanism="both lowerings are compiled and timed on the device",
    ),
    Option(
        "compiler.autotune_timeout",
        Float(),
        0.0,
        doc="The seconds that measuring one way to compute an operator may take; 0: no limit.",
        effect="With compiler.conv_search: a way that has taken longer is left out, and said so.",
        applies="compile",
        legacy=(
            Legacy(
                "MGB_CONV_PROFILING_TIMEOUT",
                fidelity="approximate",
                difference="XLA's own search among a GPU's kernels has no limit: it is for mxjax's choice "
                "between lowerings, and what was given up goes on in its thread",
            ),
        ),
        mechanism="a thread measures, and is not waited for any longer",
    ),
)
