"""Records what MXNet's Estimator and its handlers do, by generation: into ``../data/estimator.json``.

    <a Python with MXNet 2.0.0b1> tests/record/estimator.py 2
    <a Python with MXNet 1.9.1> tests/record/estimator.py 1

Values of the metrics at each event, the weights, what is logged, which files are written, when training stops.
"""

import importlib
import io
import json
import logging
import os
import re
import sys
import tempfile

import numpy as np

X = np.random.RandomState(0).rand(20, 5).astype("float32")
Y = np.random.RandomState(1).randint(0, 3, 20).astype("float32")
W = np.random.RandomState(2).rand(3, 5).astype("float32") - 0.5


def record(mx, of):
    """Everything by name; `of` is the generation, whose arrays are on."""
    estimators = importlib.import_module(f"{mx.__name__}.gluon.contrib.estimator")
    handlers = importlib.import_module(f"{mx.__name__}.gluon.contrib.estimator.event_handler")
    gluon, metrics = mx.gluon, mx.gluon.metric if of == 2 else mx.metric
    array = mx.np.array if of == 2 else mx.nd.array

    def loader(count=20, size=6):
        return gluon.data.DataLoader(gluon.data.ArrayDataset(X[:count], Y[:count]), size)

    def estimator(**given):
        net = gluon.nn.Dense(3, in_units=5)
        net.initialize()
        net.weight.set_data(array(W))
        net.bias.set_data(array(np.zeros(3, "float32")))
        trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.5})
        usual = {
            "loss": gluon.loss.SoftmaxCrossEntropyLoss(),
            "trainer": trainer,
            "train_metrics": metrics.Accuracy(),
        }
        return estimators.Estimator(net=net, **{**usual, **given})

    def values(each):
        return [[m.get()[0], float(m.get()[1])] for m in each]

    def weights(made):
        return made.net.weight.data().asnumpy().tolist()

    events = ("train_begin", "train_end", "epoch_begin", "epoch_end", "batch_begin", "batch_end")
    kinds = [
        handlers.TrainBegin,
        handlers.TrainEnd,
        handlers.EpochBegin,
        handlers.EpochEnd,
        handlers.BatchBegin,
    ]

    class Log(*kinds, handlers.BatchEnd):
        def __init__(self):
            self.seen = []

    def noting(event):
        def note(self, estimator, *args, **kwargs):
            found = (
                values([*estimator.train_metrics, *estimator.val_metrics])
                if event.endswith("end")
                else []
            )
            self.seen.append([event, found])

        return note

    for event in events:
        setattr(Log, event, noting(event))

    def fitted(validated=True, **given):
        made, log = estimator(), Log()
        made.fit(
            loader(), val_data=loader(10, 5) if validated else None, event_handlers=[log], **given
        )
        return [log.seen, weights(made)]

    def logged(*own):
        made, text = estimator(), io.StringIO()
        made.logger.addHandler(logging.StreamHandler(text))
        made.logger.setLevel(logging.INFO)
        made.fit(
            loader(), val_data=loader(10, 5), epochs=2, event_handlers=[make() for make in own]
        )
        return re.sub(r"\d+\.\d+ ?s|[\d.]+s|time \S+", "TIME", text.getvalue()).split("\n")

    def stopped(**given):
        made, log = estimator(), Log()
        handler = handlers.EarlyStoppingHandler(monitor=made.train_metrics[0], **given)
        made.fit(loader(), epochs=8, event_handlers=[handler, log])
        count = sum(event == "epoch_end" for event, _ in log.seen)
        return [
            count,
            handler.stopped_epoch,
            handler.current_epoch,
            handler.wait,
            float(handler.best),
        ]

    def files(watched=False, **given):
        with tempfile.TemporaryDirectory() as folder:
            made = estimator()
            monitor = made.train_metrics[0] if watched else None
            handler = handlers.CheckpointHandler(model_dir=folder, monitor=monitor, **given)
            made.fit(loader(), val_data=loader(10, 5), epochs=3, event_handlers=[handler])
            return sorted(os.listdir(folder))

    def resumed():
        with tempfile.TemporaryDirectory() as folder:
            first = handlers.CheckpointHandler(model_dir=folder, model_prefix="m")
            estimator().fit(loader(), epochs=2, event_handlers=[first])
            made, log = estimator(), Log()
            again = handlers.CheckpointHandler(
                model_dir=folder, model_prefix="m", resume_from_checkpoint=True
            )
            made.fit(loader(), epochs=4, event_handlers=[again, log])
            return [sorted(os.listdir(folder)), len(log.seen), weights(made)]

    def evaluated():
        made = estimator()
        made.evaluate(loader(10, 4))
        return values(made.val_metrics)

    def validated(**given):
        seen = []
        handler = handlers.ValidationHandler(
            loader(10, 5), lambda **more: seen.append(len(seen)), **given
        )
        estimator().fit(loader(), epochs=3, event_handlers=[handler])
        return len(seen)

    cases = {
        "fit": lambda: fitted(epochs=2), "fit alone": lambda: fitted(False, epochs=2),
        "fit batches": lambda: fitted(batches=5), "both lengths": lambda: fitted(epochs=2, batches=5),
        "no length": fitted, "logged by epochs": lambda: logged(lambda: handlers.LoggingHandler(log_interval="epoch")),
        "logged by batches": lambda: logged(lambda: handlers.LoggingHandler(log_interval=2)), "logged": logged,
        "stopped": lambda: stopped(patience=1), "stopped at least": lambda: stopped(mode="min", patience=0),
        "stopped by a difference": lambda: stopped(min_delta=0.2, patience=1),
        "stopped by a baseline": lambda: stopped(baseline=0.99, patience=2), "files": files,
        "last files": lambda: files(model_prefix="m", max_checkpoints=2),
        "files of batches": lambda: files(epoch_period=None, batch_period=3),
        "best files": lambda: files(True, save_best=True), "resumed": resumed, "evaluated": evaluated,
        "best of the least": lambda: files(True, save_best=True, mode="min", epoch_period=2),
        "validated by epochs": lambda: validated(epoch_period=2),
        "validated by batches": lambda: validated(epoch_period=None, batch_period=3),
        "validated by both": lambda: validated(batch_period=2), "no metric": lambda: estimator(train_metrics="acc"),
        "no loss": lambda: estimator(loss="x"),
        "names": lambda: [m.name for m in (*estimator().train_metrics, *estimator().val_metrics)],
    }  # fmt: skip
    found = {}
    for name, case in cases.items():
        try:
            found[name] = case()
        except ValueError:
            found[name] = "ValueError"
    return found


if __name__ == "__main__":
    import mxnet

    generation = int(sys.argv[1])
    if hasattr(mxnet, "npx"):
        (mxnet.npx.set_np if generation == 2 else mxnet.npx.reset_np)()
    here = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "data", "estimator.json")
    kept = json.load(open(here)) if os.path.exists(here) else {}
    kept[str(generation)] = record(mxnet, generation)
    with open(here, "w") as file:
        file.write(json.dumps(kept, sort_keys=True) + "\n")
