"""Files that are changed where their form has something to say: values of other kinds, fields, lengths, types."""

from __future__ import annotations

import ast
import copy
import io
import json
import random
import struct
import zipfile
from collections.abc import Callable, Iterator
from typing import Any

Damage = Callable[[bytes, random.Random], bytes]

_OTHERS: list[Any] = [
    None, True, False, 0, 1, -1, 2, 7, 1 << 31, 1 << 40, -(1 << 63), 1 << 70, 0.5, float("nan"), 1e308, "", "Custom",
    "None", "-1", "1e999", "(1,)", "(2, 3)", "[0, [1]]", "float64", "a b", "\0", "9" * 400, [], {}, [0], [[0, 0]],
    {"a": 1},
]  # fmt: skip


def _places(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield at
    inside = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    for key, each in inside:
        yield from _places(each, (*at, key))


def in_json(document: Any, dice: random.Random) -> Any:
    """A document with up to three values that are others: of another kind, gone, doubled, moved, under another name."""
    document = copy.deepcopy(document)
    for _ in range(dice.randint(1, 3)):
        places = [place for place in _places(document) if place]
        if not places:
            break
        *way, last = dice.choice(places)
        holder = document
        for key in way:
            holder = holder[key]
        what = dice.randrange(6)
        if what == 0:
            del holder[last]
        elif what == 1 and isinstance(holder, list):
            holder.insert(dice.randrange(len(holder) + 1), copy.deepcopy(holder[last]))
        elif what == 1:
            holder[
                dice.choice(["", "op", "name", "inputs", "attrs", "shape", "axis", "kernel"])
            ] = holder.pop(last)
        elif what == 2:  # another value of the same document
            found = document
            for key in dice.choice(places):
                found = found[key]
            holder[last] = copy.deepcopy(found)
        elif what == 3 and isinstance(holder[last], int):
            holder[last] += dice.choice([-2, -1, 1, 2, 1 << 32])
        else:
            holder[last] = copy.deepcopy(dice.choice(_OTHERS))  # the next change may write into it
    return document


def json_text(data: bytes, dice: random.Random) -> bytes:
    return json.dumps(in_json(json.loads(data), dice)).encode()


def words(data: bytes, dice: random.Random) -> bytes:
    """Numbers of four or eight bytes that are others, most of them at the begin, where lengths and types are."""
    made = bytearray(data)
    for _ in range(dice.randint(1, 3)):
        size = dice.choice([4, 8])
        at = 4 * dice.randrange(max(min(len(made), dice.choice([64, 256, len(made)])) // 4 - 1, 1))
        code = "<i" if size == 4 else "<q"
        if at + size > len(made):
            continue
        (old,) = struct.unpack_from(code, made, at)
        other = [
            0,
            1,
            2,
            3,
            5,
            -1,
            -2,
            31,
            33,
            1 << 20,
            (1 << 31) - 1,
            -(1 << 31),
            old + 1,
            old - 1,
            old * 2,
        ]
        other += [1 << 33, 1 << 40, 1 << 62] if size == 8 else []
        limit = 1 << (8 * size - 1)
        struct.pack_into(code, made, at, (dice.choice(other) + limit) % (2 * limit) - limit)
    return bytes(made)


def table(data: bytes, dice: random.Random) -> bytes:
    """The header of a .safetensors file, and the JSON in its metadata."""
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])
    own = header.get("__metadata__", {}).get("mxjax")
    if own is not None and dice.random() < 0.7:
        header["__metadata__"]["mxjax"] = json.dumps(in_json(json.loads(own), dice))
    else:
        header = in_json(header, dice)
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + data[8 + length :]


def archive(data: bytes, dice: random.Random) -> bytes:
    """Members of an .npz file: gone, under other names, with other headers, cut."""
    if data[:2] != b"PK":
        return npy(data, dice)
    with zipfile.ZipFile(io.BytesIO(data)) as found:
        members = [(info.filename, found.read(info)) for info in found.infolist()]
    for _ in range(dice.randint(1, 2)):
        k = dice.randrange(len(members))
        name, content = members[k]
        what = dice.randrange(5)
        if what == 0 and len(members) > 1:
            del members[k]
        elif what == 1:
            members[k] = (
                dice.choice(members)[0] + dice.choice(["", "x", "/shape.npy", "/format.npy"]),
                content,
            )
        elif what == 2:
            members[k] = name, dice.choice(members)[1]
        else:
            members[k] = name, npy(content, dice)
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as out:
        for name, content in dict(members).items():
            out.writestr(zipfile.ZipInfo(name), content)
    return made.getvalue()


_DTYPES = [*"<f4 <f8 <f2 <i8 <i4 |u1 |b1 <b2 >f4 <c8 |O <U3 |S5 <V4 M8[s]".split(), "", 3]
_LENGTHS = [0, 1, 2, 3, 7, 1 << 33, -1, 1 << 62, 0.5, "x"]
_NUMBERS = [0, 1, 2, 3, 5, 7, 10, 11, 16, 23, 99, -1, -2, 1 << 20, (1 << 31) - 1, 1 << 33, 1 << 62]


def npy(data: bytes, dice: random.Random) -> bytes:
    if data[:6] != b"\x93NUMPY":
        return words(data, dice)
    length = int.from_bytes(data[8:10], "little")
    try:
        fields = ast.literal_eval(data[10 : 10 + length].decode("latin1").strip())
    except (ValueError, SyntaxError):
        return words(data, dice)
    what = dice.randrange(5)
    if what == 0:
        fields["descr"] = dice.choice(_DTYPES)
    elif what == 1:
        fields["fortran_order"] = dice.choice(_OTHERS)
    elif what == 2:
        fields["shape"] = tuple(dice.choice(_LENGTHS) for _ in range(dice.randrange(5)))
    elif what == 3:
        fields.pop(dice.choice(list(fields)))
    else:
        return words(data, dice)
    text = repr(fields).encode("latin1") + b"\n"
    return data[:8] + len(text).to_bytes(2, "little") + text + data[10 + length :]


def protobuf(model: Any) -> Damage:
    """Fields of messages of this kind, an ONNX model."""

    def damage(data: bytes, dice: random.Random) -> bytes:
        made = model()
        made.ParseFromString(data)
        for _ in range(dice.randint(1, 3)):
            _field(made, dice)
        return made.SerializeToString()

    return damage


def _messages(message: Any) -> Iterator[Any]:
    yield message
    for field, value in message.ListFields():
        if field.message_type is not None:
            for each in value if hasattr(value, "append") or hasattr(value, "add") else [value]:
                yield from _messages(each)


def _field(model: Any, dice: random.Random) -> None:
    """Change one field of one of the messages."""
    every = list(_messages(model))
    message = dice.choice(every)
    fields = (
        message.DESCRIPTOR.fields
        if dice.random() < 0.2
        else [field for field, _ in message.ListFields()]
    )
    if not fields:
        return
    field = dice.choice(list(fields))
    repeated = hasattr(getattr(message, field.name), "extend")
    if field.message_type is not None:
        same = [each for each in every if each.DESCRIPTOR is field.message_type]
        other = copy.deepcopy(dice.choice(same)) if same else None
        if not repeated:
            message.ClearField(field.name)
            if other is not None and dice.random() < 0.6:
                getattr(message, field.name).CopyFrom(other)
            return
        values = getattr(message, field.name)
        what = dice.randrange(4)
        if what == 0 and len(values):
            del values[dice.randrange(len(values))]
        elif what == 1 and other is not None:
            values.append(other)
        elif what == 2 and len(values) > 1:
            one, two = dice.randrange(len(values)), dice.randrange(len(values))
            kept = copy.deepcopy(values[one])
            values[one].CopyFrom(copy.deepcopy(values[two]))
            values[two].CopyFrom(kept)
        elif what == 3 and other is not None and len(values):
            values[dice.randrange(len(values))].CopyFrom(other)
        return
    values = list(getattr(message, field.name)) if repeated else [getattr(message, field.name)]
    value = _scalar(field, values[0] if values else None, model, dice)
    if not repeated:
        if dice.random() < 0.15:
            message.ClearField(field.name)
        else:
            setattr(message, field.name, value)
        return
    what = dice.randrange(4)
    if what == 0 and values:
        del values[dice.randrange(len(values))]
    elif what == 1 and values:
        values[dice.randrange(len(values))] = value
    elif what == 2:
        values.insert(dice.randrange(len(values) + 1), value)
    else:
        values = []
    message.ClearField(field.name)
    getattr(message, field.name).extend(values)


def _scalar(field: Any, old: Any, model: Any, dice: random.Random) -> Any:
    """Another value of the field's own type."""
    kind = field.cpp_type
    if kind == field.CPPTYPE_STRING:
        if field.type == field.TYPE_BYTES:
            plain = bytes(old or b"")
            return dice.choice(
                [b"", plain[:-1], plain + b"\0", plain * 2, b"\xff", b"SAME_UPPER", bytes(8)]
            )
        graph = model.graph
        names = [n.name for n in graph.initializer] + [
            v.name for v in (*graph.input, *graph.output)
        ]
        names += [x for n in graph.node for x in (*n.input, *n.output, n.op_type)]
        names += [a.name for n in graph.node for a in n.attribute]
        return dice.choice(
            [
                *names,
                "",
                "nobody",
                "ai.onnx.ml",
                "Loop",
                "Reshape",
                "ConstantOfShape",
                "Expand",
                "Tile",
            ]
        )
    if kind in (field.CPPTYPE_FLOAT, field.CPPTYPE_DOUBLE):
        return dice.choice([0.0, -1.0, 0.5, float("nan"), float("inf"), 1e30])
    if kind == field.CPPTYPE_ENUM:
        return dice.choice([each.number for each in field.enum_type.values])
    number = dice.choice([*_NUMBERS, (old or 0) + 1])
    if kind in (field.CPPTYPE_INT32,):
        return (number + (1 << 31)) % (1 << 32) - (1 << 31)
    if kind in (field.CPPTYPE_UINT32,):
        return number % (1 << 32)
    if kind == field.CPPTYPE_UINT64:
        return number % (1 << 64)
    return (number + (1 << 63)) % (1 << 64) - (1 << 63)
