"""Networks in files: saved, exported, and checkpoints from which a training goes on."""
