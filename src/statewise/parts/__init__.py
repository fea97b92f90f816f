"""What algorithms are made of."""
