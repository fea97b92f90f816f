"""The tool that trains the shipped policies: its settings are theirs, and it writes a policy file."""

from dataclasses import replace

import pytest
from click.testing import CliRunner

import behaviour
from actor_critic import READINGS
from statewise.domains.behaviours import shipped
from statewise.policies.files import load_policy


@pytest.mark.parametrize("name", READINGS)
def test_the_shipped_policies_are_of_these_settings(name):
    card, reading = shipped(name).card, READINGS[name]
    assert (card["target_return"], card["discounted"]) == (reading.target, reading.discounted)
    assert card["iteration"].endswith(f" of {reading.iterations}")


def test_what_was_trained_is_written(monkeypatch, policy, tmp_path):
    trained = []

    def train(domain, *settings, progress):
        trained.append((domain.name, *settings))
        progress(settings[-1], 1.0)
        return replace(policy, card={"behaviour_return": 1.5e7})

    monkeypatch.setattr(behaviour, "train", train)
    done = CliRunner().invoke(behaviour.main, ["hiv-weak", "--seed", "3", "--out", str(tmp_path / "p.safetensors")])
    assert done.exit_code == 0, done.output
    assert trained == [("hiv", 1.5e7, False, 3, 40)]
    assert "it earns 1.5e+07 (undiscounted, raw)" in done.output
    assert load_policy(tmp_path / "p.safetensors").card == {"behaviour_return": 1.5e7}
