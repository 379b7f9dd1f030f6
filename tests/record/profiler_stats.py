"""Records events that MXNet's profiler saw, and the statistics that it printed of them.

Run with a Python that has Apache MXNet 2.0:  python profiler_stats.py ../data/profiler_stats.json
"""

import json
import os
import sys
import tempfile
import time

import mxnet as mx
from mxnet import profiler

target = os.path.abspath(sys.argv[1])


class AddOne(mx.operator.CustomOp):
    def forward(self, is_train, req, in_data, out_data, aux):
        self.assign(out_data[0], req[0], in_data[0] + 1)

    def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
        self.assign(in_grad[0], req[0], out_grad[0])


@mx.operator.register("MyAddOne")
class AddOneProp(mx.operator.CustomOpProp):
    def __init__(self):
        super().__init__(need_top_grad=True)

    def list_arguments(self):
        return ["data"]

    def list_outputs(self):
        return ["output"]

    def infer_shape(self, in_shape):
        return [in_shape[0]], [in_shape[0]], []

    def create_operator(self, ctx, shapes, dtypes):
        return AddOne()


def compact(events):
    """[kind, category, name, microseconds or value] of each event, in the order of the file."""
    closing = {"E": "B", "e": "b", ")": "("}
    begun, rows = {}, []
    for e in events:
        phase = e["ph"]
        if phase == "C":
            rows.append(["counter", e["cat"], e["name"], e["args"][e["name"]], phase])
        elif phase in "Bb(":
            begun[e["cat"], e["name"], phase] = e["ts"]
        elif phase in closing:
            opening = closing[phase]
            took = e["ts"] - begun.pop((e["cat"], e["name"], opening))
            rows.append(["span", e["cat"], e["name"], took, opening])
        elif phase == "n":
            rows.append(["instant", e["cat"], e["name"], 0, phase])
    # Operators are in the file twice, per device and per task; the statistics count them once.
    twice = {(r[1], r[2]) for r in rows if r[4] == "B"}
    return [r[:4] for r in rows if r[4] != "b" or (r[1], r[2]) not in twice]


os.chdir(tempfile.mkdtemp())
profiler.set_config(
    profile_all=True, aggregate_stats=True, continuous_dump=True, filename="trace.json"
)
profiler.set_state("run")
x = mx.nd.ones((64, 64))
for _ in range(3):
    mx.nd.Custom(x, op_type="MyAddOne").wait_to_read()
y = x
for _ in range(4):
    y = (y * 2).sum() + x
mx.nd.waitall()
domain = profiler.Domain("user domain")
for i in range(3):
    task = domain.new_task("a task")
    task.start()
    time.sleep(0.001 * i)
    task.stop()
frame = domain.new_frame("a frame")
frame.start()
frame.stop()
event = profiler.Event("an event")
event.start()
time.sleep(0.002)
event.stop()
counter = domain.new_counter("a counter with a name longer than the column", 5)
counter += 30
counter -= 2
domain.new_marker("a marker").mark()
profiler.set_state("stop")
mx.nd.waitall()
time.sleep(0.5)

out = {"json": json.loads(profiler.dumps(format="json")), "tables": {}}
for sort_by in ("total", "avg", "min", "max", "count"):
    for order in ("descending", "ascending"):
        table = profiler.dumps(sort_by=sort_by, ascending=order == "ascending")
        out["tables"][f"{sort_by} {order}"] = table
profiler.dump()
with open("trace.json") as file:
    out["events"] = compact(e for e in json.load(file)["traceEvents"] if e["ph"] != "M")
with open(target, "w") as file:
    json.dump(out, file)
