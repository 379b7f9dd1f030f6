"""The folder of MXNet's scripts: `os.path.join(mxnet.__path__[0], "tools", "im2rec.py")` starts this package's own."""
