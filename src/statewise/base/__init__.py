"""What every package here builds on: whole files, tensors, registries, decoding."""
