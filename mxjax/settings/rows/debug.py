"""What is logged, watched and written down."""

from __future__ import annotations

from types import MappingProxyType

from ..kinds import Boolean, Choice, Fields, Integer, Path, Words
from ..option import Legacy, Option


def _native_level(level: int | None) -> dict[str, str | None]:
    # Severities start at 0 with notes there; what lies below is for the verbose level.
    if level is None:
        return {}
    return {
        "TF_CPP_MIN_LOG_LEVEL": str(max(0, level - 1)),
        "TF_CPP_MAX_VLOG_LEVEL": "1" if level == 0 else None,
    }


class _Steps:
    """Training steps, as Ascend writes them: '0|3-5', or one number."""

    expected = "steps such as '0|3-5'"

    def convert(self, raw: object) -> tuple[tuple[int, int], ...]:
        if isinstance(raw, tuple) and all(isinstance(pair, tuple) for pair in raw):
            return raw
        if isinstance(raw, int) and not isinstance(raw, bool):
            raw = str(raw)
        if not isinstance(raw, str):
            raise ValueError
        found = []
        for word in raw.split("|"):
            first, dash, last = word.partition("-")
            low = Integer().convert(first)
            found.append((low, Integer(low).convert(last) if dash else low))
        return tuple(found)


OPTIONS: tuple[Option, ...] = (
    Option(
        "debug.log_level",
        Choice(("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")),
        None,
        doc="The level of the logger 'mxjax'; unset: as Python's logging is configured.",
        effect="logging.getLogger('mxjax').setLevel(...).",
        legacy=(Legacy("MEGENGINE_LOGGING_LEVEL"),),
    ),
    Option(
        "debug.runtime_log_level",
        Integer(0, 4),
        None,
        doc="What JAX's compiled libraries log: 0 everything, 1 notes, 2 warnings, 3 errors, 4 fatal ones.",
        effect="Their lines on stderr.",
        applies="import",
        legacy=(Legacy("RUNTIME_OVERRIDE_LOG_LEVEL"),),
        environment=_native_level,
    ),
    Option(
        "debug.log_memory",
        Boolean(),
        False,
        doc="Log what memory each compiled program takes.",
        effect="A line per program with its bytes of arguments, results and temporaries.",
        legacy=(
            Legacy(
                "MGB_LOG_TRT_MEM_ALLOC",
                fidelity="approximate",
                difference="it tells the memory of XLA's programs, which stand where TensorRT's did",
            ),
            Legacy("MXNET_MEM_PLAN_VERBOSE_LOGGING"),
        ),
        mechanism="memory_analysis() of each program, to the logger 'mxjax'",
    ),
    Option(
        "debug.log_collectives",
        Boolean(),
        False,
        doc="Log the operators of each program that combine devices.",
        effect="A line per operator with its kind, bytes and groups of devices.",
        legacy=(Legacy("MGE_MM_OPR_DEBUG"),),
        mechanism="the compiled program's text, to the logger 'mxjax'",
    ),
    Option(
        "debug.log_kernels",
        Integer(0, 2),
        0,
        doc="Print the matrix products and convolutions that run (1), and those that are compiled (2).",
        effect="Lines of comma-separated values, as oneDNN prints them.",
        legacy=(
            Legacy(
                "DNNL_VERBOSE",
                fidelity="approximate",
                difference="XLA runs programs, not primitives: the time is that of handing over the "
                "program",
            ),
        ),
        mechanism="an observer of the engine prints to standard output",
    ),
    Option(
        "debug.log_compiling",
        Boolean(),
        True,
        doc="Say on stderr that the compiler will take more than a second.",
        effect="1: a line with the program, its length, about how long it takes by estimate, and the line of the "
        "user's code that asked for it. 0: nothing is said. mx.engine.explain() tells of all programs.",
        mechanism="an estimate from the number of operations, before XLA begins",
    ),
    Option(
        "debug.log_loader",
        Boolean(),
        False,
        doc="Log what a DataLoader passes through shared memory.",
        effect="A line per batch on the workers' stderr, with its bytes and its way.",
        legacy=(Legacy("MGE_DATALOADER_PLASMA_DEBUG"),),
        dynamic=True,
        mechanism="workers print where they write a batch",
    ),
    Option(
        "debug.nan",
        Choice(("off", "warn", "raise")),
        "off",
        doc="Watch every operator for NaN and infinity.",
        effect="The first operator whose result has some while its operands have none is named: as a "
        "warning of the logger, or as an MXNetFloatingPointError.",
        applies="compile",
        mechanism="each program also counts them per operator; a callback reads the counts",
    ),
    Option(
        "debug.watch_var",
        Words(),
        (),
        doc="Operators (or places such as 'dense0/FullyConnected') whose results are logged.",
        effect="A line per run with shape, sum, smallest and largest number, NaN and infinities.",
        applies="compile",
        legacy=(
            Legacy(
                "MGB_DEBUG_VAR_SANITY_CHECK_LOG",
                fidelity="approximate",
                difference="variables have names instead of numbers, and there is no guard around "
                "their memory to check",
            ),
        ),
        dynamic=True,
        mechanism="jax.debug.callback behind the operator, to the logger 'mxjax'",
    ),
    Option(
        "debug.dump",
        Fields(
            enable_dump=Boolean(),
            dump_path=Path(),
            dump_step=_Steps(),
            dump_mode=Choice(("input", "output", "all")),
            dump_data=Choice(("tensor", "stats")),
            dump_layer=Words(),
            enable_dump_debug=Boolean(),
            dump_debug_mode=Choice(("overflow", "aicore_overflow", "atomic_overflow", "all")),
        ),
        MappingProxyType({}),
        doc="Write operators' operands and results to files.",
        effect="A folder per training step with an .npz per operator, or one table of statistics; "
        "dump_layer and dump_step choose. enable_dump_debug logs operators that overflow instead.",
        applies="compile",
        legacy=(Legacy("dump_config"),),
        mechanism="jax.debug.callback behind each operator; `python -m mxjax.debug compare A B` reads it",
    ),
    Option(
        "debug.dump_inputs",
        Boolean(),
        False,
        doc="Let debug.dump write operands, too.",
        effect="As dump_mode='all' where debug.dump does not say.",
        applies="compile",
        legacy=(Legacy("MGB_DUMP_INPUT"),),
        mechanism="see debug.dump",
    ),
    Option(
        "debug.level",
        Integer(0, 4),
        0,
        doc="Which of the compiler's files are kept: 1 programs, 2 also machine code's source, 3 also each pass.",
        effect="Files in debug.compiler_folder, or a new one that is logged.",
        applies="compile",
        legacy=(Legacy("op_debug_level"),),
        mechanism="xla_dump_to, xla_dump_hlo_pass_re, xla_embed_ir_in_executable",
    ),
    Option(
        "debug.keep_compiler_files",
        Boolean(),
        False,
        doc="Keep the files that the compiler writes about each program.",
        effect="Without it those in debug.compiler_folder are removed at exit.",
        applies="compile",
        legacy=(Legacy("MGB_JIT_KEEP_INTERM"),),
        dynamic=True,
        mechanism="xla_dump_to",
    ),
    Option(
        "debug.compiler_folder",
        Path(),
        None,
        doc="Where the compiler writes its files about each program.",
        effect="Programs before and after optimisation, their memory, their machine code.",
        applies="compile",
        legacy=(Legacy("MGB_JIT_WORKDIR"),),
        dynamic=True,
        mechanism="xla_dump_to",
    ),
    Option(
        "debug.dump_quantized",
        Boolean(),
        False,
        doc="Let debug.dump also write what low-precision operators were given, before it was rounded.",
        effect="A second file for each operator that precision.* lets compute in fewer bits, '..._prequant', with its "
        "operands as they came.",
        applies="compile",
        legacy=(
            Legacy(
                "quant_dumpable",
                fidelity="approximate",
                difference="operators in float16 or bfloat16 count as quantized, too",
            ),
        ),
        mechanism="see debug.dump",
    ),
    Option(
        "debug.log_storage_fallback",
        Boolean(),
        True,
        doc="Log where a sparse array was asked for or given, and a dense one does the work.",
        effect="Warns once per operator and storage type when sparse arrays are converted to dense ones for it.",
        legacy=(Legacy("MXNET_STORAGE_FALLBACK_LOG_VERBOSE"),),
        mechanism="a warning of the logger 'mxjax'",
    ),
)
