"""A measure of a user's own: whether the log tries its actions alike."""

import numpy as np

import statewise as sw


def most(evidence):
    actions = evidence.case.prepared.dataset.actions
    return float(np.bincount(actions).max() / len(actions))


sw.MEASURES.add(
    "even-actions",
    sw.Measure(
        title="Actions tried alike",
        meaning="If one action was taken nearly always, the log says little of the others.",
        bounds=(0.9, 0.999),
        value=most,
        sentence=lambda evidence: f"one action was taken in {most(evidence):.0%} of decisions",
    ),
)
