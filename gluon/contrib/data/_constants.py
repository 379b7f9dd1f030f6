"""MXNet's constant of texts."""

#: What stands at the end of a sentence.
EOS_TOKEN = "<eos>"
