"""What a run measured: values, files, merging, accuracy."""
