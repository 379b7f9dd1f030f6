"""The names that MXNet's modules hold, private ones too: `python tests/record/module_names.py` with MXNet 1.9.1 and
again with 2.0.0b1. Written to tests/data/module_names.json, by generation and module.

Left out are names of Python and NumPy, and ctypes' handles.
"""

import importlib
import json
import pathlib
import pkgutil
import types

import mxnet

OUT = pathlib.Path(__file__).parents[1] / "data" / "module_names.json"
#: Modules that programs import from.
OFTEN = (
    *(
        "gluon metric module model io image initializer optimizer callback context device base executor monitor"
    ).split(),
    *(
        "recordio kvstore lr_scheduler rnn test_utils util visualization attribute name random operator"
    ).split(),
    *(
        "autograd profiler engine registry contrib.amp amp contrib.text contrib.quantization contrib.io"
    ).split(),
    *("contrib.svrg_optimization contrib.autograd contrib.tensorboard").split(),
)
PLUMBING = {
    *(
        "_LIB check_call c_str c_array c_array_buf c_handle_array c_str_array mx_uint mx_int mx_float mx_int64"
    ).split(),
    *("mx_real_t py_str ctypes ctypes2buffer ctypes2docstring ctypes2numpy_shared").split(),
}


def counts(name, value):
    if name.startswith("__") or name in PLUMBING or "Handle" in name:
        return False
    if isinstance(value, types.ModuleType):
        return value.__name__.startswith("mxnet")
    owner = getattr(value, "__module__", None)
    plain = isinstance(value, (int, float, str, bool, tuple, list, dict))
    if isinstance(owner, str) and not owner.startswith("mxnet") and not plain:
        return False
    return not type(value).__module__.startswith(("__future__", "ctypes"))


found = {}
for each in [
    types.SimpleNamespace(name="mxnet"),
    *pkgutil.walk_packages(mxnet.__path__, "mxnet.", lambda _: None),
]:
    short = each.name[6:]
    if short and not short.startswith(OFTEN):
        continue
    module = importlib.import_module(each.name)
    found[short] = " ".join(
        sorted(name for name, value in vars(module).items() if counts(name, value))
    )
known = json.loads(OUT.read_text()) if OUT.exists() else {}
known[mxnet.__version__[:3]] = found
OUT.write_text(json.dumps(known, indent=0, sort_keys=True) + "\n")
