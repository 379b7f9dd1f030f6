"""What is compiled once and kept."""

from __future__ import annotations

from ..kinds import Bytes, Choice, Integer, Path
from ..option import Legacy, Option

OPTIONS: tuple[Option, ...] = (
    Option(
        "cache.mode",
        Choice(("auto", "file", "force", "off")),
        "auto",
        doc="Whether compiled programs are kept on disk for the next process.",
        effect="auto and file: programs are written to cache.dir and read from there; force: the folder is emptied "
        "first; off: they live in memory only.",
        applies="compile",
        legacy=(
            Legacy(
                "op_compiler_cache_mode",
                Choice(("enable", "disable", "force")),
                {"enable": "file", "disable": "off", "force": "force"},
            ),
            Legacy(
                "MGE_FASTRUN_CACHE_TYPE",
                Choice(("FILE", "MEMORY")),
                {"FILE": "file", "MEMORY": "off"},
            ),
        ),
        mechanism="the programs of mxjax alone are kept; JAX's own cache (jax_compilation_cache_dir) is left as it is",
    ),
    Option(
        "cache.dir",
        Path(empty=True),
        None,
        doc="The folder of compiled programs; unset: the user's own for such things (XDG_CACHE_HOME/mxjax or "
        "~/.cache/mxjax, on macOS ~/Library/Caches/mxjax); empty: nothing is kept.",
        effect="A second process that runs the same programs compiles none of them. They are in its folder `programs`, "
        "which must be the user's and writable by nobody else.",
        applies="compile",
        legacy=(
            Legacy("op_compiler_cache_dir"),
            Legacy("MGE_FASTRUN_CACHE_DIR"),
            Legacy("ASCEND_CACHE_PATH", weak=True),
        ),
        mechanism="one file a program, by what decides the compilation: the program, options and flags, versions, the "
        "processor's instructions, cores",
    ),
    Option(
        "cache.size",
        Bytes(),
        1 << 30,
        doc="How many bytes the programs in the folder may take.",
        effect="Where a program is written and there are more, those used longest ago go.",
        applies="compile",
        mechanism="files of the folder are removed after a compilation; processes that write at the same time may pass "
        "the bound by a sixteenth each, until one counts again",
    ),
    Option(
        "cache.max_executables",
        Integer(-1),
        -1,
        doc="How many compiled programs a process keeps in memory; -1: all.",
        effect="Beyond it the program that was not used for longest goes, and is compiled again where it comes back.",
        applies="compile",
        legacy=(
            Legacy(
                "MXNET_MKLDNN_CACHE_NUM",
                fidelity="approximate",
                difference="it counts programs (segments and graphs) instead of primitives",
            ),
            Legacy(
                "MXNET_ONEDNN_CACHE_NUM",
                fidelity="approximate",
                difference="as MXNET_MKLDNN_CACHE_NUM",
            ),
        ),
        mechanism="the store of programs (engine.program_memory) is bounded in number, too",
    ),
)
