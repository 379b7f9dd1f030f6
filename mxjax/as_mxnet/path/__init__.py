"""A folder for PYTHONPATH: `import mxnet` finds mxjax in it."""
