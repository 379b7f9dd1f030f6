"""Training steps that are compiled and measured, and plans that are found so."""
