"""How calls are recorded and run."""

from __future__ import annotations

from ..kinds import Boolean, Bytes, Choice, DeviceName, Float, Integer
from ..option import Legacy, Option


class _Streams:
    """Ascend's stream_max_parallel_num: `ENGINE:N,ENGINE:N`."""

    expected = "text such as 'AIcoreEngine:4' (also with DNN_VM_AICPU:N, behind a comma)"

    def convert(self, raw: object) -> int | None:
        if not isinstance(raw, str):
            raise ValueError
        pairs = dict(word.strip().split(":", 1) for word in raw.split(","))
        if not set(pairs) <= {"AIcoreEngine", "DNN_VM_AICPU", "DNN_VM_AICPU_ASCEND", "DNN_HCCL"}:
            raise ValueError
        counts = {name: Integer(1).convert(text) for name, text in pairs.items()}
        return counts.get("AIcoreEngine")


#: The variable by which JAX chooses between XLA's two clients for GPUs.
GPU_DISPATCH = "XLA_PYTHON_CLIENT_USE_TFRT_GPU_CLIENT"
_DISPATCH = {"auto": None, "asynchronous": "1", "synchronous": "0"}

OPTIONS: tuple[Option, ...] = (
    Option(
        "engine.type",
        Choice(("NaiveEngine", "ThreadedEngine", "ThreadedEnginePerDevice"), suffix="Async"),
        "ThreadedEnginePerDevice",
        doc="How calls run: one by one and synchronously, or recorded and compiled together.",
        effect="NaiveEngine runs and waits call by call, so an error stops at its own line; the "
        "other two record segments and are one and the same here.",
        legacy=(Legacy("MXNET_ENGINE_TYPE"),),
    ),
    Option(
        "engine.async_level",
        Integer(0, 2),
        2,
        doc="How far calls may run ahead of the program: 0 not at all, 1 and 2 freely.",
        effect="0 runs and waits call by call, as NaiveEngine does; levels 1 and 2 are the same "
        "here, because shapes and types are always checked at the call.",
        legacy=(Legacy("MEGENGINE_INTERP_ASYNC_LEVEL"),),
    ),
    Option(
        "engine.bulk_infer",
        Boolean(),
        True,
        doc="Compile the calls outside autograd.record() together.",
        effect="0: every such call is a program of its own, run asynchronously.",
        legacy=(Legacy("MXNET_EXEC_BULK_EXEC_INFERENCE"),),
    ),
    Option(
        "engine.bulk_train",
        Boolean(),
        True,
        doc="Compile the calls of training (under autograd.record() and backward) together.",
        effect="0: every such call is a program of its own, so a profile shows each operator.",
        legacy=(Legacy("MXNET_EXEC_BULK_EXEC_TRAIN"),),
    ),
    Option(
        "engine.bulk_nodes",
        Integer(0),
        4096,
        doc="The largest number of calls in one segment.",
        effect="A segment that reaches it is run. MXNet's default is 15; ours holds a whole "
        "training step. Forward and backward share segments here: of several legacy names the "
        "smallest counts.",
        legacy=(
            Legacy("MXNET_EXEC_BULK_EXEC_MAX_NODE_TRAIN"),
            Legacy("MXNET_EXEC_BULK_EXEC_MAX_NODE_TRAIN_FWD"),
            Legacy("MXNET_EXEC_BULK_EXEC_MAX_NODE_TRAIN_BWD"),
        ),
        combine=min,
    ),
    Option(
        "engine.cpu_threads",
        Integer(1),
        None,
        doc="The number of threads XLA's CPU backend computes with; unset: one per core.",
        effect="Sizes both thread pools of the CPU backend when it starts.",
        applies="backend-init",
        legacy=(
            Legacy("MXNET_CPU_WORKER_NTHREADS"),
            Legacy(
                "MXNET_CPU_NNPACK_NTHREADS",
                weak=True,
                fidelity="approximate",
                difference="all of XLA's kernels share one pool; it counts where "
                "MXNET_CPU_WORKER_NTHREADS is unset",
            ),
            Legacy(
                "MXNET_USE_NUM_CORES_OPERATOR_TUNING",
                weak=True,
                fidelity="approximate",
                difference="XLA splits work over the threads it has, by a fixed model of costs; "
                "it counts where neither of the others is set",
            ),
        ),
        platforms=("cpu",),
        environment=lambda count: {"PJRT_NPROC": None if count is None else str(count)},
    ),
    Option(
        "engine.gpu_dispatch",
        Choice(("auto", "asynchronous", "synchronous")),
        "auto",
        doc="Whether the call of a program on a GPU returns before the program's kernels are launched.",
        effect="asynchronous: threads of XLA's launch them, while Python records what comes next. synchronous: the "
        "thread that calls launches them itself, as JAX has it unless told otherwise. auto: asynchronous, unless "
        "XLA_PYTHON_CLIENT_USE_TFRT_GPU_CLIENT is set. It counts where mxjax starts JAX's backends.",
        applies="backend-init",
        platforms=("gpu",),
        environment=lambda way: {GPU_DISPATCH: _DISPATCH[way]},
    ),
    Option(
        "engine.queue_size",
        Integer(1),
        10000,
        doc="How many programs may run ahead of the host.",
        effect="Where more are under way the host waits for the oldest (mx.engine.stats()['waits']). "
        "A program holds many calls here, so the queue is seldom long; 256 and more are no bound.",
        legacy=(Legacy("MEGENGINE_ASYNC_QUEUE_SIZE"),),
        mechanism="block_until_ready on the oldest result that is not there yet",
    ),
    Option(
        "engine.catch_exceptions",
        Boolean(),
        True,
        doc="Keep an error of a running program until its result is asked for.",
        effect="0: it is raised where the program was started, with JAX's own error as its cause.",
        legacy=(Legacy("MEGENGINE_CATCH_WORKER_EXEC"),),
        mechanism="the scheduler raises instead of filling the results with the failure",
    ),
    Option(
        "engine.record_path",
        Boolean(),
        False,
        doc="Remember how each array was computed.",
        effect="mx.engine.history(x) lists the calls that led to x. It costs time and memory at every call.",
        legacy=(Legacy("MEGENGINE_RECORD_COMPUTING_PATH"),),
        mechanism="an observer of the engine notes operator, block and line of each call",
    ),
    Option(
        "engine.device",
        DeviceName(),
        None,
        doc="The device of new arrays; xpu is the best there is, unset: cpu(0).",
        effect="What mx.current_device() is outside of `with` blocks.",
        legacy=(
            Legacy("MGE_DEFAULT_DEVICE"),
            Legacy("session_device_id", Integer(), "xpu{}".format),
            Legacy("ASCEND_DEVICE_ID", Integer(), "xpu{}".format, weak=True),
        ),
        mechanism="mx.Device of that name; a device that is not there is an error when first used",
    ),
    Option(
        "engine.run_mode",
        Choice(("train", "infer")),
        "train",
        doc="Whether this process may train.",
        effect="infer: mx.autograd.record() is an error, so no gradient is kept by mistake.",
        legacy=(Legacy("graph_run_mode", Integer(0, 1), {0: "infer", 1: "train"}),),
        mechanism="autograd.record raises MXNetError",
    ),
    Option(
        "engine.jit",
        Choice(("auto", "true", "false")),
        "auto",
        doc="Compile calls together, or run each operator by itself.",
        effect="false: every call is a program of its own, also in hybridized blocks; auto and true compile "
        "segments and blocks.",
        legacy=(Legacy("jit_compile"),),
        mechanism="segments of one call; hybridized blocks run their forward as it is",
    ),
    Option(
        "engine.cold",
        Choice(("auto", "compile", "interpret")),
        "auto",
        doc="Whether code runs before it is compiled.",
        effect="auto: a segment of calls runs call by call, computed by NumPy, until what that lost would have paid "
        "for compiling it quickly, and as that program until it has lost what the optimised one costs, or by NumPy "
        "until then, where a quick program saves nothing; which it is "
        "depends on counts and sizes, never on clocks. compile: optimised programs alone. interpret: nothing is "
        "compiled that NumPy has a rule for, hybridized blocks and large products neither; mx.engine.explain() tells "
        "of the others. mx.engine.stats()['interpreted'] counts segments run so. Results agree to rounding.",
        mechanism="each call is traced once for all shapes, and its primitives are NumPy's; operators that NumPy "
        "lacks are programs; auto: hybridized blocks and large works, too",
    ),
    Option(
        "engine.compile_price",
        Float(0),
        1.0,
        doc="How dear the compiler is in comparison with running, as a factor.",
        effect="Larger: code runs longer by NumPy, and by quickly compiled programs, before it is optimised. 0: "
        "whatever is compiled is optimised at once. 1 is what was measured on CPUs; `make bench-price` prints a "
        "machine's.",
        mechanism="a factor of the compiler's price, which is estimated from the kernels of a program",
    ),
    Option(
        "engine.graph_breaks",
        Choice(("warn", "quiet", "error")),
        "warn",
        doc="What happens when the forward of a hybridized block asks for a number (bool, asnumpy, nonzero, a mask).",
        effect="warn: the block runs imperatively from then on, as do those around it, and says so once with the line "
        "that asks. quiet: the same unsaid. error: MXNetError, as hybridize(static_shape=True) makes it for one block. "
        "mx.engine.stats()['breaks'] counts recordings that were given up.",
        mechanism="the recording is undone; blocks beside the one that asks keep graphs of their own",
    ),
    Option(
        "engine.steps_per_call",
        Integer(1),
        1,
        doc="How many training steps make one program, at most.",
        effect="Trainer.step hands its work to the device every so many steps: those steps are one program "
        "with donated weights. Reading a loss or a weight in between ends it earlier, and so do "
        "engine.bulk_nodes calls: 1000 steps of four calls each, or 68 of 60, are one program, and their batches wait "
        "in memory. Four and more steps of the same calls are compiled once, as a loop.",
        legacy=(Legacy("iterations_per_loop"),),
        mechanism="Trainer.step ends the recorded segment at every n-th step, and its program is a lax.scan",
    ),
    Option(
        "engine.parallel_executions",
        Integer(1, 2147483647),
        None,
        doc="How many threads may run hybridized blocks in prediction at a time; unset: all.",
        effect="A thread beyond it waits until another's result is there.",
        legacy=(Legacy("graph_max_parallel_model_num"),),
        mechanism="a semaphore round the program of a hybridized block, held until its result is ready",
    ),
    Option(
        "engine.host_fallback",
        Boolean(),
        True,
        doc="Let programs call back into Python for operators that XLA does not have.",
        effect="0: a custom operator is an error that names it.",
        legacy=(Legacy("mix_compile_mode"),),
        mechanism="mx.operator.Custom raises MXNetNotImplementedError",
    ),
    Option(
        "engine.device_streams",
        Integer(1),
        None,
        doc="How many streams of a GPU one program may use.",
        effect="XLA spreads independent operators of a program over them.",
        applies="compile",
        legacy=(
            Legacy(
                "MXNET_GPU_WORKER_NTHREADS",
                fidelity="approximate",
                difference="operators of one program share the streams; programs follow each other",
            ),
            Legacy("MXNET_GPU_WORKER_NSTREAMS"),
            Legacy(
                "stream_max_parallel_num",
                _Streams(),
                fidelity="approximate",
                difference="only AIcoreEngine:N has a counterpart; host callbacks run in XLA's own "
                "threads",
            ),
        ),
        platforms=("gpu",),
        compiler=lambda count, platform: (
            {"xla_gpu_executable_num_compute_streams": count} if count and platform == "gpu" else {}
        ),
    ),
    Option(
        "engine.copy_threads",
        Integer(1),
        None,
        doc="How many threads copy a large NumPy array into an array of ours; unset: two, where "
        "data.copy_threshold asks for it.",
        effect="Arrays of at least data.copy_threshold elements are cut into so many parts. Given "
        "alone, that is MXNet's 200000.",
        legacy=(Legacy("MXNET_GPU_COPY_NTHREADS"),),
        mechanism="a pool of threads, made at the first such copy",
    ),
    Option(
        "engine.priority_threads",
        Integer(1),
        4,
        doc="How many threads sum what a kvstore was given on CPU devices.",
        effect="Sums of larger priority are taken first. A push is shared out in comm.reduce_threads parts, of which "
        "so many are added at a time; unless this is given, all of them.",
        legacy=(Legacy("MXNET_CPU_PRIORITY_NTHREADS"),),
        mechanism="threads that take the work of the largest priority, made at the first such sum",
    ),
    Option(
        "engine.program_memory",
        Bytes(),
        None,
        doc="How much memory compiled programs may take; unset: 128 MB (with a GPU 1 GB), and more where needed.",
        effect="Beyond it programs that were not used for longest go, and are compiled again where they come back. "
        "Sizes are estimates (mx.engine.stats(): held, held_bytes, evicted). Unset, each program that has to be "
        "compiled again raises the bound by its size, up to a quarter of the machine's memory; a size that is "
        "given stays.",
        applies="compile",
        mechanism="a store of all programs, which counts how many were compiled since each was used",
    ),
    Option(
        "engine.host_compute",
        Boolean(),
        True,
        doc="Let NumPy compute a few whole numbers, such as lengths, that are in the host's memory.",
        effect="1: on accelerators segments of such calls (up to 7 elements; of floats one, and operators that do not "
        "round) need no program. 0: they are programs as all others (mx.engine.stats()['on_host'] counts). On CPUs "
        "NumPy computes what does not come back often anyway (engine.cold).",
        legacy=(Legacy("MEGENGINE_HOST_COMPUTE"),),
        mechanism="the traced segment is interpreted with NumPy; nothing is compiled or sent to a device",
    ),
    Option(
        "engine.host_ops_parallel",
        Boolean(),
        False,
        doc="Run custom operators' Python in threads, next to each other and to programs.",
        effect="1: nd.Custom returns at once, and reading its results waits; an error in it is raised there.",
        legacy=(
            Legacy(
                "ac_parallel_enable",
                fidelity="approximate",
                difference="it is for custom operators; those with auxiliary states run one after the other",
            ),
        ),
        mechanism="a pool of threads; results stand for work that is under way",
    ),
)
