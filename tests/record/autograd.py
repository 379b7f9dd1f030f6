"""Records autograd's answers to tests/autograd/scenarios.py.

Run with a Python that has Apache MXNet 2.0.0b1: ``python autograd.py``. Writes
``../data/autograd.json``: ``scenarios`` {name: answer} and ``gradients`` {expression: [dtype,
grad]}.
"""

import os
import sys
import warnings

import mxnet as mx
from codec import save

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "autograd"))
import scenarios  # noqa: E402

warnings.simplefilter("ignore")


def main():
    answers = {name: f(mx) for name, f in scenarios.SCENARIOS.items()}
    gradients = {e: scenarios.gradient(mx, e) for e in scenarios.expressions()}
    save("autograd.json", {"scenarios": answers, "gradients": gradients})


if __name__ == "__main__":
    main()
