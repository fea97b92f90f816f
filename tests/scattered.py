"""A backend that computes parts last to first, from copies of them, as processes elsewhere do."""

import pickle


class Scattered:
    """Counts how often it was asked."""

    def __init__(self):
        self.maps = 0

    def mapped(self, compute, parts):
        self.maps += 1
        parts = [pickle.loads(pickle.dumps(part)) for part in parts]
        results = [compute(part) for part in reversed(parts)]
        return reversed(results)
