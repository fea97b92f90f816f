"""What a policy would have earned, told from a log of another's decisions."""
