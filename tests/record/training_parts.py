"""Records what surrounds a training loop in MXNet 1.9.1: iterators, descriptions, metrics over an epoch, schedules.

Run with a Python that has Apache MXNet 1.9.1: ``python training_parts.py``. Writes ``../data/training_parts.json``:
``{expression: repr of its value, or [name of the error]}``.
"""

import json
import warnings
from pathlib import Path

import mxnet as mx
import mxnet.misc
import numpy as np

warnings.simplefilter("ignore")

EXPRESSIONS = r"""
epochs(mx.io.NDArrayIter(A(10), A(10) + 5, 4))
epochs(mx.io.NDArrayIter(A(10), A(10) + 5, 4, last_batch_handle='discard'))
epochs(mx.io.NDArrayIter(A(10), A(10) + 5, 4, last_batch_handle='roll_over'), 4)
epochs(mx.io.NDArrayIter(A(8), None, 4, last_batch_handle='roll_over'))
epochs(mx.io.NDArrayIter(A(3), None, 8))
epochs(mx.io.NDArrayIter(A(3), None, 6))
epochs(mx.io.NDArrayIter(A(3), None, 8, last_batch_handle='discard'))
epochs(mx.io.NDArrayIter({'b': A(5), 'a': A(5) * 2}, {'y': A(5)}, 3))
epochs(mx.io.NDArrayIter([A(5), A(5) * 2], [A(5), A(5)], 3))
epochs(mx.io.NDArrayIter(mx.nd.array(A(5), dtype='int32'), A(5).astype('int64'), 2))
seeded(lambda: epochs(mx.io.NDArrayIter(A(7), A(7) * 10, 3, shuffle=True)))
seeded(lambda: epochs(mx.io.NDArrayIter(A(7), A(7) * 10, 3, shuffle=True, last_batch_handle='roll_over'), 3))
hard(mx.io.NDArrayIter(A(10), None, 4, last_batch_handle='roll_over'))
mx.io.NDArrayIter(A(6).reshape(3, 2), A(3), 2).provide_data
mx.io.NDArrayIter(A(6).reshape(3, 2), A(3), 2).provide_label
mx.io.NDArrayIter({'b': A(3), 'a': mx.nd.ones((3, 2), dtype='float16')}, batch_size=2).provide_data
mx.io.NDArrayIter([A(3), A(3)], [A(3), A(3)], data_name='x', label_name='y').provide_label
mx.io.NDArrayIter(None)
mx.io.NDArrayIter('text')
mx.io.NDArrayIter([])
mx.io.NDArrayIter({'a': 'text'})
epochs(mx.io.ResizeIter(mx.io.NDArrayIter(A(10), None, 4), 2), 3)
epochs(mx.io.ResizeIter(mx.io.NDArrayIter(A(10), None, 4), 5), 2)
epochs(mx.io.ResizeIter(mx.io.NDArrayIter(A(10), None, 4), 2, reset_internal=False), 3)
epochs(mx.io.PrefetchingIter(mx.io.NDArrayIter(A(10), A(10), 4)))
epochs(mx.io.PrefetchingIter([mx.io.NDArrayIter(A(6), A(6), 4), mx.io.NDArrayIter({'z': A(6) * 3}, batch_size=4)]))
renamed().provide_data
renamed().provide_label
mx.io.DataDesc('data', (2, 3))
mx.io.DataDesc('data', (2, 3), np.float16, 'NT')
mx.io.DataDesc('data', (2, 3), np.float16, 'NT') == ('data', (2, 3))
[mx.io.DataDesc.get_batch_axis(layout) for layout in (None, 'NCHW', 'TNC', 'CHW')]
mx.io.DataDesc.get_list([('a', (1, 2)), ('b', (3,))], None)
mx.io.DataDesc.get_list([('a', (1, 2)), ('b', (3,))], [('b', 'int32'), ('a', 'float64')])
str(mx.io.DataBatch([mx.nd.ones((2, 3))]))
str(mx.io.DataBatch([mx.nd.ones((2, 3)), mx.nd.ones((7, 8))], [mx.nd.ones((4,))], 3))
mx.io.DataBatch(mx.nd.ones((2, 3)))
mx.io.DataBatch([mx.nd.ones((2, 3))], mx.nd.ones((2,)))
local('acc')
local(mx.metric.create(['acc', 'ce']))
local(mx.metric.create('top_k_accuracy', top_k=2))
batches('f1', 'classes')
batches(mx.metric.F1('f1', None, None, 'micro'), 'classes')
batches(mx.metric.F1(average='macro'), 'classes')
batches('mcc', 'classes')
batches(mx.metric.MCC(average='micro'), 'classes')
batches('pearsonr', 'numbers')
batches(mx.metric.PearsonCorrelation(average='micro'), 'numbers', False)
batches(mx.metric.Perplexity(0), 'chances')
batches(mx.metric.Perplexity(None, -1, 'p'), 'chances')
batches(mx.metric.CrossEntropy(1e-8, 'c'), 'chances')
mx.io.NDArrayIter(A(6).reshape(3, 2), A(3), 2, layout='NT').provide_data
batches('mae', 'vectors')
batches('mse', 'vectors')
batches('rmse', 'numbers')
[round(mx.misc.FactorScheduler(3, 0.5)(i), 6) for i in range(10)]
mx.misc.FactorScheduler(0)
mx.misc.FactorScheduler(1, 1.0)
mx.misc.LearningRateScheduler()(1)
"""

CODE = r"""
def A(n):
    return np.arange(n)

def epochs(it, n=2):
    out = []
    for _ in range(n):
        out.append([([d.asnumpy().tolist() for d in b.data], [l.asnumpy().tolist() for l in b.label], b.pad,
                     sorted({str(np.dtype(d.dtype)) for d in b.data + b.label})) for b in it])
        it.reset()
    return out

def seeded(run):
    np.random.seed(11)
    return run()

def hard(it):
    list(it)
    it.hard_reset()
    return epochs(it, 1)

def renamed():
    one, two = (mx.io.NDArrayIter({'data': A(6)}, {'label': A(6)}, 2) for _ in range(2))
    return mx.io.PrefetchingIter([one, two], rename_data=[{'data': 'p'}, {'data': 'q'}],
                                 rename_label=[{'label': 'r'}, {'label': 's'}])

def batches(metric, kind, local=True):
    metric, rs, seen = mx.metric.create(metric), np.random.RandomState(3), []
    for count in (6, 4, 5):
        label = rs.randint(0, 2, count) if kind in ('classes', 'chances') else rs.randn(count, 2)
        pred = rs.rand(count, 2)
        if kind == 'chances':
            pred /= pred.sum(1, keepdims=True)
        if kind == 'vectors':
            label, pred = label[:, 0], pred[:, 0]
        metric.update([mx.nd.array(label)], [mx.nd.array(pred)])
        seen += [metric.get()[1], metric.get_global()[1]] if local else [metric.get()[1]]
        if local and count == 4:
            metric.reset_local()
    metric.reset()
    metric.update([mx.nd.array(label)], [mx.nd.array(pred)])
    return [round(float(v), 4) for v in (*seen, metric.get()[1], metric.num_inst)]


def local(metric):
    metric = mx.metric.create(metric)
    batches = [([0, 1, 1], [[.9, .1, 0], [.8, .05, .15], [.3, .6, .1]]), ([1, 2], [[.2, .7, .1], [.6, .3, .1]])]
    seen = []
    for label, pred in batches:
        metric.update([mx.nd.array(label)], [mx.nd.array(pred)])
        seen.append((metric.get_name_value(), metric.get_global_name_value()))
        metric.reset_local()
    seen.append(metric.get_global_name_value())
    metric.reset()
    seen.append(metric.get_global_name_value())
    return [[(name, round(float(value), 5)) for name, value in part] for pair in seen
            for part in (pair if isinstance(pair, tuple) else (pair,))]
"""


def answer(expression, scope):
    try:
        return repr(eval(expression, scope))
    except Exception as error:
        return [type(error).__name__]


if __name__ == "__main__":
    scope = {"mx": mx, "np": np}
    exec(CODE, scope)
    found = {line: answer(line, scope) for line in EXPRESSIONS.strip().splitlines()}
    path = Path(__file__).parents[1] / "data" / "training_parts.json"
    path.write_text(json.dumps({"code": CODE, "answers": found}, indent=0) + "\n")
