"""Placement: devices, meshes and memories, and who holds them."""
