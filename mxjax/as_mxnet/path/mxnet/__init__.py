"""Found by `import mxnet` in processes whose PYTHONPATH begins with the folder above: it is mxjax from then on."""

import mxjax.as_mxnet  # noqa: F401  # puts mxjax into this module's place
