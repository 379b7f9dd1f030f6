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
        effect="file: programs are written to cache.dir and read from there; force: the folder is emptied "
        "first; off: they live in memory only; auto: file where cache.dir is given, else off.",
        applies="compile",
        legacy=(
            Legacy("op_compiler_cache_mode", Choice(("enable", "disable", "force")),
                   {"enable": "file", "disable": "off", "force": "force"}),
            Legacy("MGE_FASTRUN_CACHE_TYPE", Choice(("FILE", "MEMORY")),
                   {"FILE": "file", "MEMORY": "off"}),
        ),
        mechanism="jax_enable_compilation_cache, with no lower limit of size or compile time",
    ),
    Option(
        "cache.dir",
        Path(),
        None,
        doc="The folder of compiled programs; ~/.cache/mxjax where cache.mode asks for one.",
        effect="A second process that runs the same programs compiles none of them.",
        applies="compile",
        legacy=(
            Legacy("op_compiler_cache_dir"),
            Legacy("MGE_FASTRUN_CACHE_DIR"),
            Legacy("ASCEND_CACHE_PATH", weak=True),
        ),
        mechanism="jax_compilation_cache_dir, and the cache in use is closed",
    ),
    Option(
        "cache.size",
        Bytes(),
        None,
        doc="How many bytes the folder may hold; unset: no limit.",
        effect="Where a program is compiled and there are more, the oldest go.",
        applies="compile",
        mechanism="files of the folder are removed after a compilation",
    ),
    Option(
        "cache.max_executables",
        Integer(-1),
        -1,
        doc="How many compiled programs a process keeps in memory; -1: all.",
        effect="Beyond it the program that was not used for longest goes, and is compiled again where it comes back.",
        applies="compile",
        legacy=(
            Legacy("MXNET_MKLDNN_CACHE_NUM", fidelity="approximate",
                   difference="it counts programs (segments and graphs) instead of primitives"),
            Legacy("MXNET_ONEDNN_CACHE_NUM", fidelity="approximate",
                   difference="as MXNET_MKLDNN_CACHE_NUM"),
        ),
        mechanism="the store of programs (engine.program_memory) is bounded in number, too",
    ),
)
