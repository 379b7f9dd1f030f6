"""What users are shown: texts and HTML of objects, help and its types, and hints in errors about names."""
