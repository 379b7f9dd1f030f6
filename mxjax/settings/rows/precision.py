"""What operators compute in."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Mapping
from types import MappingProxyType

from ..kinds import Boolean, Choice, KindError, Words, read_text
from ..option import Legacy, Option

_IMPLEMENTATIONS = (
    "high_precision", "high_performance", "super_performance", "enable_float_32_execution",
    "enable_hi_float_32_execution", "support_out_of_bound_index",
)  # fmt: skip
#: What Ascend's customize_dtypes may say and operators do not compute in here: the rest of the file counts.
_NOT_COMPUTED = {
    word: "operators compute in floats here; mx.contrib.quantization makes layers of 8 bits"
    for word in "int8 uint8 int16 uint16 int32 uint32 int64 uint64 bool complex64 complex128 string".split()
}
_SAME = {"float": "float32", "double": "float64", "half": "float16"}


def _strongest(values: Iterable[str]) -> str:
    found = set(values)
    return next(word for word in ("highest", "float16", "default") if word in found)


class Lists:
    """Changes to the lists of mixed precision, as Ascend's modify_mixlist file has them.

    {"black-list": {"to-remove": [...], "to-add": [...]}, "white-list": ..., "gray-list": ...}: operators on
    the white list compute in the low precision, those on the black list do not, grey ones follow their
    inputs.
    """

    expected = (
        "a path to JSON, JSON, or a dict: {'black-list': {'to-add': [...], 'to-remove': [...]}, "
        "'white-list': ..., 'gray-list': ...}"
    )

    def convert(self, raw: object) -> Mapping[str, Mapping[str, tuple[str, ...]]]:
        if isinstance(raw, str):
            import json

            raw = json.loads(raw if raw.lstrip().startswith("{") else read_text(raw))
        if not isinstance(raw, Mapping):
            raise ValueError
        found: dict[str, Mapping[str, tuple[str, ...]]] = {}
        for name, changes in raw.items():
            if name not in ("black-list", "white-list", "gray-list") or not isinstance(
                changes, Mapping
            ):
                raise KindError(f"{name!r} is no list of mixed precision")
            if not set(changes) <= {"to-add", "to-remove"}:
                raise KindError(
                    f"{name}: only 'to-add' and 'to-remove' are known, got {sorted(changes)}"
                )
            found[name] = {key: Words().convert(value) for key, value in changes.items()}
        return found


class PerOperator:
    """Lines `NAME:value` or sections of them, in a file or a dict: a setting for each operator.

    ``left_out`` are values that are allowed and change nothing, with the reason, which a warning tells.
    """

    def __init__(
        self, values: tuple[str, ...], left_out: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        self.values = values
        self.left_out = left_out

    @property
    def expected(self) -> str:
        return (
            f"a path to lines of 'operator:value', or a dict; values are {', '.join(self.values)}"
        )

    def convert(self, raw: object) -> Mapping[str, tuple[str, ...]]:
        given = self._lines(read_text(raw)) if isinstance(raw, str) else raw
        if not isinstance(given, Mapping):
            raise ValueError
        found = {}
        for name, value in given.items():
            words = tuple(_SAME.get(word.lower(), word.lower()) for word in Words().convert(value))
            for word in words:
                if word not in self.values and word not in self.left_out:
                    raise KindError(f"{name}: {word!r} is none of {', '.join(self.values)}")
            for word in words:
                if word in self.left_out:
                    what = (
                        "changes nothing"
                        if word == words[0]
                        else f"changes nothing, {words[0]} counts"
                    )
                    warnings.warn(f"{name}: {word} {what}: {self.left_out[word]}", stacklevel=8)
            kept = tuple(word for word in words if word not in self.left_out)
            if (
                kept and words[0] not in self.left_out
            ):  # of several the first is the one that is computed in
                found[str(name)] = kept
        return MappingProxyType(found)

    def _lines(self, text: str) -> dict[str, str]:
        found: dict[str, str] = {}
        by_node = False
        for number, line in enumerate(text.splitlines(), 1):
            line = line.split("#")[0].strip()
            if line.startswith("[") and line.endswith("]"):
                by_node = line[1:-1].strip().lower() == "bynodename"
                continue
            if not line:
                continue
            dtypes_of = _DTYPES_OF.fullmatch(line)
            if dtypes_of is not None:
                name = dtypes_of["name"].strip()
                of_type = dtypes_of["type"] is not None or "/" in name
                found[name if of_type else f"/{name}"] = dtypes_of["dtypes"].strip(" ,")
                continue
            name, colon, value = line.partition("=") if "=" in line else line.partition(":")
            if not colon:
                raise KindError(f"line {number}: expected 'operator:value', got {line!r}")
            name = name.strip()
            found[f"/{name}" if by_node and "/" not in name else name] = value.strip()
        return found


#: Of customize_dtypes: `Opname::InputDtype:float16,...,OutputDtype:...`, or `OpType::Relu:InputDtype:...`.
_DTYPES_OF = re.compile(
    r"(?P<type>OpType::)?(?P<name>.*?):{1,2}InputDtype:(?P<dtypes>.*?)(,?\s*OutputDtype:.*)?"
)


OPTIONS: tuple[Option, ...] = (
    Option(
        "precision.amp",
        Choice(
            ("origin", "float16", "bfloat16", "mixed_float16", "mixed_bfloat16", "matmul_float16")
        ),
        "origin",
        doc="What float32 operators compute in.",
        effect="float16, bfloat16: all; mixed_*: those on the white list of mixed precision (matrix products, "
        "convolutions), the rest in float32; matmul_float16: these with a float32 sum. Arrays stay "
        "float32 between programs.",
        applies="compile",
        legacy=(
            Legacy(
                "precision_mode",
                Choice(
                    (
                        "force_fp16",
                        "force_fp32",
                        "allow_fp32_to_fp16",
                        "cube_fp16in_fp32out",
                        "must_keep_origin_dtype",
                        "allow_mix_precision",
                        "allow_mix_precision_fp16",
                        "allow_mix_precision_bf16",
                        "allow_fp32_to_bf16",
                    )
                ),
                {
                    "force_fp16": "float16",
                    "force_fp32": "origin",
                    "allow_fp32_to_fp16": "origin",
                    "cube_fp16in_fp32out": "matmul_float16",
                    "must_keep_origin_dtype": "origin",
                    "allow_mix_precision": "mixed_float16",
                    "allow_mix_precision_fp16": "mixed_float16",
                    "allow_mix_precision_bf16": "mixed_bfloat16",
                    "allow_fp32_to_bf16": "origin",
                },
            ),
            Legacy(
                "precision_mode_v2",
                Choice(
                    ("fp16", "origin", "cube_fp16in_fp32out", "mixed_float16", "mixed_bfloat16")
                ),
                {
                    "fp16": "float16",
                    "origin": "origin",
                    "cube_fp16in_fp32out": "matmul_float16",
                    "mixed_float16": "mixed_float16",
                    "mixed_bfloat16": "mixed_bfloat16",
                },
            ),
        ),
        mechanism="operators' inputs are converted while a program is traced, their results back to "
        "the dtype that the recording promised",
    ),
    Option(
        "precision.lists",
        Lists(),
        MappingProxyType({}),
        doc="Changes to the lists of operators of mixed precision.",
        effect="An operator that is moved to the black list computes in float32, one on the white list in the "
        "low precision. An unknown operator is an error with the nearest names.",
        applies="compile",
        legacy=(Legacy("modify_mixlist"),),
        mechanism="the lists of precision.amp=mixed_*",
    ),
    Option(
        "precision.op_dtypes",
        PerOperator(("float16", "bfloat16", "float32", "float64"), _NOT_COMPUTED),
        MappingProxyType({}),
        doc="The dtype that single operators compute in, by type or by place ('dense0/FullyConnected').",
        effect="Stronger than precision.amp, except where that is must_keep_origin_dtype; a place is "
        "stronger than a type. Of several dtypes the first counts, for all operands and results. Integers change "
        "nothing, and a warning names their lines.",
        applies="compile",
        legacy=(Legacy("customize_dtypes"),),
        mechanism="converts around the operator, as for precision.amp",
    ),
    Option(
        "precision.matmul",
        Choice(("default", "highest", "float16", "bfloat16")),
        "default",
        doc="How matrix products and convolutions of float32 may be computed.",
        effect="highest: without TF32 or bf16 passes; float16, bfloat16: operands are rounded to it and "
        "summed in float32.",
        applies="compile",
        legacy=(
            Legacy("MXNET_CUDA_ALLOW_TENSOR_CORE", Boolean(), {True: "default", False: "highest"}),
            Legacy(
                "MXNET_CUDA_TENSOR_OP_MATH_ALLOW_CONVERSION",
                Boolean(),
                {True: "float16", False: "default"},
            ),
        ),
        combine=_strongest,
        mechanism="jax.default_matmul_precision round each operator, or converted operands",
    ),
    Option(
        "precision.impl",
        Choice(("high_precision", "high_performance")),
        None,
        doc="Whether operators are computed exactly or fast.",
        effect="high_precision: matrix products at full precision; high_performance: at the device's default, "
        "and XLA:CPU may reorder sums.",
        applies="compile",
        legacy=(Legacy("op_select_implmode"),),
        compiler=lambda mode, platform: (
            {"xla_cpu_enable_fast_math": True}
            if mode == "high_performance" and platform == "cpu"
            else {}
        ),
        mechanism="jax.default_matmul_precision round the operators of precision.impl_ops (all, if none)",
    ),
    Option(
        "precision.impl_ops",
        Words(),
        (),
        doc="The operators that precision.impl is for; none: all.",
        effect="Other operators keep the default.",
        applies="compile",
        legacy=(Legacy("optypelist_for_implmode"),),
        mechanism="see precision.impl",
    ),
    Option(
        "precision.op_impl",
        PerOperator(
            _IMPLEMENTATIONS,
            {
                "keep_fp16": "sums of 16-bit floats follow precision.accumulation and precision.product_accumulation"
            },
        ),
        MappingProxyType({}),
        doc="Whether single operators are computed exactly or fast.",
        effect="Stronger than precision.impl. support_out_of_bound_index is so anyway: no operator reads or writes "
        "beyond an array. enable_hi_float_32_execution is high_performance.",
        applies="compile",
        legacy=(Legacy("op_precision_mode"),),
        mechanism="jax.default_matmul_precision round the operator",
    ),
    Option(
        "precision.accumulation",
        Choice(("wide", "narrow")),
        None,
        doc="What sums of many numbers are kept in while they grow; unset: as XLA does.",
        effect="wide: sums, means, products of all elements, norms and softmax of float16 and bfloat16 in float32, "
        "those of float32 in float64. narrow: sums and means one after the other in the dtype itself, so small numbers "
        "get lost. XLA adds in several places at once, in a dtype that depends on the device.",
        applies="compile",
        legacy=(Legacy("MXNET_SAFE_ACCUMULATION", Boolean(), {True: "wide", False: "narrow"}),),
        dynamic=True,
        mechanism="operands are converted before, results after; narrow: a loop over the elements",
    ),
    Option(
        "precision.product_accumulation",
        Choice(("wide", "narrow")),
        None,
        doc="What the sums inside matrix products and convolutions of 16-bit floats are kept in; unset: as XLA does.",
        effect="wide: operands are converted to float32 and the result is rounded once. narrow: FullyConnected and dot "
        "round the sum to 16 bits at each step.",
        applies="compile",
        legacy=(
            Legacy("MXNET_FC_TRUE_FP16", Boolean(), {True: "narrow", False: None}),
            Legacy(
                "MXNET_CUDNN_ALLOW_REDUCED_PRECISION_REDUCTION",
                Boolean(),
                {True: None, False: "wide"},
            ),
        ),
        combine=lambda values: next((v for v in ("wide", "narrow") if v in set(values)), None),
        dynamic=True,
        mechanism="converted operands, or a loop over the axis that is summed",
    ),
)
