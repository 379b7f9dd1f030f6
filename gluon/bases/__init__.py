"""What blocks, parameters and trainers inherit: names, mirroring, private state, sparse values, copies and pickles."""
