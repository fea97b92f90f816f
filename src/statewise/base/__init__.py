"""What every room stands on: files written whole, tensors, registries."""
