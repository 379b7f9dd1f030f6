"""Found by `import mxnet` in processes whose PYTHONPATH begins with the folder above: it is mxjax from then on."""

stands_for_mxjax = True  # `install` puts mxjax into this module's place

import mxjax.as_mxnet  # noqa: E402, F401
