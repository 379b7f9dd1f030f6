"""The table of numbers by which it is decided how a segment runs: each with its unit, and what measured it.

Prices (microseconds on one core, of which only the ratios count) are asked by those who estimate: `price.py` of a
program, `../interpret/by_call.py` and `numpy_code.py` of NumPy. Thresholds are asked by `choice.py` alone. "CPU" in a
source is AVX-512 with jax 0.10.2, "GPU" an H200 with jax 0.11.2; the benchmarks named are targets of `make`.
"""

from __future__ import annotations

from typing import Annotated

# ---- NumPy: a segment call by call

CALL: Annotated[float, "us", "CPU, chains of small calls: a call beside its work"] = 6.0
LINE: Annotated[float, "us", "CPU: a call of NumPy's own, as `Bound.steps` counts them"] = 1.5
NUMBER: Annotated[int, "ps", "CPU: an operation of NumPy's on a float32 in the cache"] = 300
PRODUCT: Annotated[
    int, "ps", "AVX2: a product with its sum in OpenBLAS's sgemm, 25 in large matrices, 45 in small"
] = 30
PATCH: Annotated[
    int, "ps", "AVX2: a number of the patches that a convolution multiplies, copied; 0.5 to 1.8 ns"
] = 1000
SPREAD: Annotated[
    int, "ps", "AVX2: one that a strided convolution's gradient adds to the image; 2.7 to 4.9 ns"
] = 3000
GROUP: Annotated[int, "ps", "AVX2, 16 to 256 groups: of each, a number of the result"] = 16_000
GROUP_CALLS: Annotated[int, "calls of NumPy's", "the same: for each group"] = 4
WHILE_ROUNDS: Annotated[int, "rounds", "chosen: of a loop that ends by its numbers"] = 100
WHILE_AGAIN: Annotated[int, "rounds", "chosen: of such a loop in such a loop"] = 10
DRAWN_ROUNDS: Annotated[
    int, "rounds", "numbers that are drawn until one is taken: gamma 2 to 5, Poisson 4 to 17"
] = 6
DRAWN_AGAIN: Annotated[int, "rounds", "the same, of a loop in such a loop"] = 2
UNKNOWN: Annotated[int, "equations", "chosen: of a call that cannot be traced"] = 20
BY_NUMBER: Annotated[float, "us", "CPU: erf, lgamma of one number by Python's `math`"] = 0.2
DRAWN: Annotated[
    float, "us", "AVX2: random bits of one number by NumPy less those of a program"
] = 0.02
FUNCTION: Annotated[float, "us", "CPU: the program of one of these, 60 to 90 ms"] = 75_000.0
FUNCTION_RUN: Annotated[float, "us", "AVX2: a run of such a program beside its numbers"] = 50.0
FUNCTION_NUMBER: Annotated[float, "us", "AVX2: one number of erf_inv in such a program"] = 0.004
FETCH: Annotated[
    float, "us", "GPU, an array that it computed: NumPy waits for it and for what was begun before"
] = 1000.0

# ---- programs

RUN: Annotated[float, "us", "CPU: a run of a program beside its work"] = 6.0
SINGLE: Annotated[
    float, "us", "CPU: a run of a program of one call, from NumPy's arrays to NumPy's"
] = 25.0
UNFUSED: Annotated[
    float, "part", "chosen: of the work of single programs, what one of several calls saves"
] = 0.25
# With LLVM's -O1, XLA's older emitters and one module.
LIGHT: Annotated[
    float,
    "part of the optimised price",
    "CPU: LeNet's step 0.77 s of 1.80, ResNet-18's 4.8 of 10.2",
] = 0.5
LIGHT_LOSES: Annotated[
    float,
    "part of what a quick run loses",
    "CPU: LeNet's step 6.1 ms (optimised 3.8, quick 16.6), ResNet-18's 183 (163, 314)",
] = 1 / 6

CPU_BASE: Annotated[float, "us", "bench-price: a program with nothing in it, lowered"] = 15_000.0
CPU_QUICK_BASE: Annotated[float, "us", "bench-price: the same"] = 16_000.0
#: What `kernels.py` counts in a program: kernels and calls of libraries, and the equations in kernels.
CPU_CODE: Annotated[
    dict[str, tuple[float, float]],
    "us, lowering included: optimised, of each that is like no other; and quickly, of each",
    "bench-price, by a fit of 400 programs",
] = {
    "kernel": (26_000.0, 1_300.0),
    "kernel of one number": (10_000.0, 300.0),
    "filling kernel": (19_000.0, 1_700.0),
    "filled number": (500.0, 300.0),
    "parting kernel": (18_000.0, 1_400.0),
    "turning kernel": (50_000.0, 1_200.0),
    "summing kernel": (1_500.0, 1_000.0),  # a library's
    "reducing kernel": (14_000.0, 1_800.0),
    "joined": (6_500.0, 2_100.0),  # one after the other
    "arithmetic": (800.0, 200.0),
    "function": (2_000.0, 650.0),
    "moving": (100.0, 700.0),
    "turn": (9_000.0, 150.0),
    "sum": (300.0, 400.0),
    "reduction": (300.0, 300.0),
    "constant": (0.05, 0.04),  # of each number
    "product": (800.0, 550.0),
    "product of a vector": (39_000.0, 3_500.0),
    "convolution: cols": (4_500.0, 800.0),
    "convolution: lax": (80_000.0, 1_200.0),
    "convolution: abreast": (40_000.0, 1_600.0),
    "convolution: narrow": (40_000.0, 1_600.0),
    "convolution: blocks2": (80_000.0, 1_600.0),
    "convolution: shifts": (160_000.0, 40_000.0),
    "convolution: winograd": (270_000.0, 2_700.0),
    "windows": (50_000.0, 4_000.0),
    "windows placed": (30_000.0, 10_000.0),
    "row sums": (170_000.0, 18_000.0),  # `row_sums.py`
    "placed": (34_000.0, 12_000.0),
    "update": (29_000.0, 3_300.0),
    "sort": (15_000.0, 7_000.0),
    "loop": (165_000.0, 9_000.0),
    "branch": (20_000.0, 3_000.0),
    "draw": (20_000.0, 66_000.0),
    "key": (55_000.0, 3_300.0),
    "library": (10_000.0, 3_000.0),
    "barrier": (800.0, 400.0),
}
SUMMED: Annotated[int, "numbers", "bench-price: so many float32 are added up by a library"] = 4096
ALIKE: Annotated[
    float,
    "part of the optimised price",
    "chosen: of a call like which there is one; kernels that are alike are one",
] = 0.1
CPU_QUICK_NEWER: Annotated[
    float, "part of the optimised price", "bench-price, jax 0.12, without the older emitters"
] = 0.5
CPU_SLOWER: Annotated[
    float, "us a number", "bench-price: 0.5 to 2 ns, as long where libraries compute"
] = 1e-3
CPU_QUICKLY: Annotated[
    float,
    "times NumPy's",
    "a quick step as a whole: ResNet-18, VGG-11, DenseNet 1.2 to 1.4, GoogLeNet 1.8",
] = 2.0
CPU_LIBRARY: Annotated[
    float, "part", "AVX2, ten layers: of the libraries' time, what an optimised program saves"
] = 0.05
CPU_PATCHES: Annotated[
    float,
    "part",
    "AVX2, 17 convolutions: of what NumPy takes for patches, what an optimised program saves; a quick one none",
] = 0.8
GPU_BASE: Annotated[float, "us", "GPU: a program of one kernel 45 to 60 ms"] = 50_000.0
GPU_EQUATION: Annotated[float, "us", "GPU: 4 to 6 ms, 2.5 in a ResNet-18"] = 5_000.0
GPU_TUNED: Annotated[float, "us", "GPU: the trials of a product or convolution"] = 250_000.0
GPU_EACH: Annotated[
    float, "us a product", "GPU, an LSTM language model: 12.4 ms a step without trials, 5.0 with"
] = 30.0

# ---- thresholds: when a program is bought, and in which form

ONE_RUN: Annotated[
    float,
    "part of the price",
    "bought at once where one run costs it: no second run, which may be compared with the first, is "
    "the first of the program",
] = 1 / 2
DERIVATIVE_WORK: Annotated[int, "times", "chosen: a graph's run with its derivative"] = 3
DERIVATIVE_EQUATIONS: Annotated[int, "times", "chosen: their programs' equations"] = 4
GRAPH_NUMBERS: Annotated[
    int, "numbers", "chosen: an accelerator's graphs that take more are programs at once"
] = 1 << 18
FETCHED: Annotated[
    int, "numbers", "chosen: of segments with more, an accelerator makes programs"
] = 1 << 22
LARGE: Annotated[
    int,
    "bytes",
    "chosen: larger results go to the device at once, for several programs may read them",
] = 1 << 16
SELDOM: Annotated[
    int, "runs", "chosen: until then others' programs serve other results and donations"
] = 3
SELDOM_SMALL: Annotated[int, "runs", "chosen: the same where what is not overwritten is small"] = (
    1000
)
SMALL: Annotated[int, "bytes", "chosen: small, for that"] = 1 << 20
LITTLE: Annotated[
    float, "us", "what a quick program saves at least: as an operator it is not `Step.solo`"
] = 30_000.0
SURE: Annotated[
    int, "runs", "chosen: these come in all likelihood, and what they would lose is no saving"
] = 3
PAID: Annotated[
    float,
    "part of the price",
    "the bound, simulated: exchanged there; a run takes longer than it loses, and a quick program has its price",
] = 2 / 3
BESIDE: Annotated[
    float, "part of the price", "chosen: a thread begins there; an idle core costs nobody anything"
] = 1 / 16
FOREVER: Annotated[
    int, "runs", "chosen: a program that does not lose the price in so many stays as it is"
] = 100_000
PAUSE: Annotated[
    float, "us", "bench-jobs: no pause over 2 s; longer ones are compiled beside a quick program"
] = 2_000_000.0
SILENT: Annotated[float, "us", "chosen: what takes longer says so"] = 1_000_000.0

# ---- accelerators, and segments NumPy has no say in: programs that may never come back

UNPROVEN: Annotated[int, "programs", "chosen: so many that never came back may stand"] = 2
OFTEN: Annotated[
    int, "runs", "chosen: by operator, these lost as much as several programs cost"
] = 1500
VARIANTS: Annotated[
    int, "programs", "chosen: of one segment, that differ in results and donations alone"
] = 6
SOLO_BYTES: Annotated[
    int, "bytes", "chosen: up to it the engine's own work counts more than a donated buffer"
] = 1 << 16
HALVED: Annotated[
    int,
    "numbers",
    "CPU: one program more to run takes 20 us, little where another computes so many",
] = 2_000_000
