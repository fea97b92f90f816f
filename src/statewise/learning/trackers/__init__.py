"""Where metrics go besides the run folder, one tracker per file.

A tracker is made for a run folder and called after every stretch with the number of updates done. It reads the metrics
from the folder, so that a run that is resumed after an interruption is tracked in full.
"""
