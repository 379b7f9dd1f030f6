"""What a network's backward pass holds and costs, without compiling it."""
