"""Dynamic tensor rematerialisation, the machinery of `mx.dtr`."""
