"""Recording: rows of the table bound to calls, appended to the thread's segment, and the values that they will have."""
