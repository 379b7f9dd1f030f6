"""How hybridized blocks run: cached graphs, their shapes and buckets, graph breaks, and hooks on their operators."""
