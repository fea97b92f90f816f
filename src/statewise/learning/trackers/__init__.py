"""Where metrics go besides the run folder, one place a file.

Each is made for a run folder and called after every stretch of updates with what `fit` tells its watcher. All read the
folder, so that a run that goes on after an interruption is told whole.
"""
