"""`make docs`: the site's pages, put together from docs/, the folders' READMEs, the programs and the docstrings."""
