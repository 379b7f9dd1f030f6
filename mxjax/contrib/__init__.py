"""What MXNet calls contributed: `mx.contrib`. Modules are loaded when they are first used."""

from mxjax.errors import explain_names as _explain_names

_explain_names(__name__)
