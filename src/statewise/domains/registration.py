"""Makes the simulators known to Gymnasium, which calls `register` when it is imported.

It imports no simulator: whoever uses Gymnasium for something else should not wait for JAX.
"""

import gymnasium

HORIZON = 200


def register() -> None:
    """Harmless when done twice."""
    for name, function in (("CartPole-v0", "cartpole"), ("HIV-v0", "hiv")):
        if f"statewise/{name}" not in gymnasium.registry:
            entry = f"statewise.domains.environments:{function}"
            gymnasium.register(f"statewise/{name}", entry, max_episode_steps=HORIZON)
