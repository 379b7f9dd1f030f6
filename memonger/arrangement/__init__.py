"""What a graph's backward pass keeps and what it computes again, and the function that does so."""
