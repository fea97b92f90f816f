"""What logs certify: learned on half of a log, tested step by step on the other half, and played to know the truth."""
