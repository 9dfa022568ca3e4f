"""SmolLM2 on the default corpus gives what the baseline in the repository says, on whatever CPU this runs.

The baseline was recorded once, and moves only with a new version of the numerics or the sampler: a failure is a bug.
"""

import pytest
from conftest import ROOT

BASELINE = ROOT / "corpus" / "baselines" / "smollm2-135m-int8.json"


def run(eadem, smollm2, *options):
    report = eadem.json("gate", "-m", smollm2, "--baseline", BASELINE, *options)
    assert report["verdict"] == "pass" and report["cause"] == "none", report["summary"]
    assert report["subject"]["identity"] == report["baseline"]["identity"]
    assert report["counts"]["not_run"] == 0
    return report["counts"]["pass"]


def test_a_part(eadem, smollm2):
    categories = ("near-tie", "structured", "sampling")
    assert run(eadem, smollm2, *(x for c in categories for x in ("--category", c))) >= 40


@pytest.mark.long
@pytest.mark.parametrize("options", [[], ["--threads", "1", "--max-batch", "5", "--prefill-chunk", "64"]])
def test_the_whole(eadem, smollm2, options):
    assert run(eadem, smollm2, *options) >= 100
